"use strict";
// What a model is trained for. Each task adds its view, from the file view.js in its own folder; views.js joins them.

const SENTENCES = (text) => sentencesOf(text);
const ONE_A_LINE = (text) => sentencesOf(text).map((each) => ({ before: "", text: each.text, after: "\n" }));
const WHOLE = (text) => [{ before: "", text: text.trim(), after: "" }];

/**
 * Views by the kind of the task:
 *   title, source, result, noun: names of the task, of its two texts, and of one answer
 *   saved: the name of the result in a saved trace, where it is another
 *   cut(text): the parts of a text that the model gets one by one, each with what stands around it
 *   told(prediction): a prediction as one line; null: the text is translated
 *   summary(trace): the same of a saved trace
 *   translates: whether the model reads one text and writes another
 *   scoresText: whether what gets a probability is the text itself, so that an edit makes another text
 *   panels: what can be looked at; `parts` are the panels of the trace that it needs, `alone`: it needs no trace
 */
const TASKS = new Map();

/** The view of the model in use; a saved page has the kind of its trace. Without a model, the page translates. */
const taskNow = () => TASKS.get(session.model?.task) ?? TASKS.get("translation");
const translating = () => Boolean(taskNow().translates);

/** Those parts of a text with words in them: one of them is looked at. */
const spoken = (text) =>
  taskNow()
    .cut(text)
    .filter((part) => part.text);
