"""Configurations: what is written can be read, and what is wrong is said in one line."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway import recipes
from headway.config import dump, field_comments, from_dict, load, override, schema, to_dict
from headway.errors import UsageError
from headway.model.design import EncoderDecoderDesign, LanguageModelDesign, Model, TextEncoderDesign
from headway.model.feed_forward import FeedForward
from headway.model.kernels import Fused, Linear, Linformer, Mixing, Softmax
from headway.model.kernels.scores import Score
from headway.model.norms import Norm
from headway.model.positions import Learned, Position, Sinusoidal, Tener
from headway.model.residuals import Residual


def members(family: Any) -> list[Any]:
    return [member() for member in get_args(family)]


def designs() -> list[Any]:
    """Every recipe, and every member of every family inside a design."""
    plain = [recipe() for recipe in recipes.ALL.values()] + members(Model)
    unscaled = {Tener(): Fused(scaled=False)}
    places = [TextEncoderDesign(positions=one, attention=unscaled.get(one, Fused())) for one in members(Position)]
    mixings = [*members(Mixing), *(Softmax(score=one) for one in members(Score))]
    kernels = [TextEncoderDesign(positions=Learned(), attention=one) for one in mixings]
    shapes = [
        *(TextEncoderDesign(norm=one) for one in members(Norm)),
        *(TextEncoderDesign(residual=one) for one in members(Residual)),
        *(TextEncoderDesign(feed_forward=one) for one in members(FeedForward)),
    ]
    odd = EncoderDecoderDesign(
        attended_layers=(0, 1, 2, 3, 4, 5),
        encoder_attention=Linformer(),
        cross_attention=Linear(),
        tie_embeddings="none",
        key_heads=2,
        head_width=48,
    )
    return [*plain, *places, *kernels, *shapes, odd]


def written(text: str | bytes, folder: Path) -> Path:
    path = folder / "design.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# ---------------------------------------------------------------- there and back


@pytest.mark.parametrize("design", designs(), ids=lambda design: design.kind)
def test_what_is_dumped_loads(design: Any, tmp_path: Path) -> None:
    path = written(dump(design), tmp_path)
    assert load(type(design), path) == design
    assert load(Model, path) == design  # the kind alone tells which model it is
    assert from_dict(type(design), to_dict(design)) == design
    assert from_dict(Model, json.loads(json.dumps(to_dict(design)))) == design


@pytest.mark.parametrize("recipe", recipes.ALL)
def test_a_whole_run_loads(recipe: str, tmp_path: Path) -> None:
    from headway.tasks.run import Run

    run = Run(model=recipes.ALL[recipe]())
    text = dump(run)
    assert load(Run, written(text, tmp_path)) == run
    assert "[model]" in text and "[training]" in text


def test_every_setting_is_explained() -> None:
    """The comment at the end of a field's line is the TOML's comment; one without is a mistake."""
    for member in get_args(Model):
        names = {field.name for field in fields(member)} - {"kind"}
        assert names - field_comments(member).keys() == set()
        lines = dump(member()).splitlines()
        assert [line for line in lines if "#" not in line and not line.startswith("kind")] == []
    for family in (Position, Mixing, Norm, FeedForward, Score, Residual):
        for member in get_args(family):
            assert {field.name for field in fields(member)} - {"kind"} - field_comments(member).keys() == set()


@dataclass(frozen=True)
class Inner:
    """A chapter."""

    section: ClassVar[bool] = True
    name: str = "x"  # any text
    share: float = 0.5  # a number


@dataclass(frozen=True)
class Part:
    """One of several."""

    kind: Literal["part"] = "part"
    size: int = 1  # how large


@dataclass(frozen=True)
class Whole:
    """What a configuration may hold."""

    path: Path = Path("a")  # a path
    flag: bool = False  # yes or no
    unset: int | None = None  # nothing yet
    several: tuple[Part, ...] = ()  # a list of parts
    either: Part | str = "plain"  # a table or a name
    inner: Inner = Inner()  # a chapter of its own


@given(
    name=st.text(st.characters(codec="utf-8", exclude_characters="\x00")),
    share=st.floats(allow_nan=False),
    flag=st.booleans(),
    unset=st.none() | st.integers(-(2**63), 2**63 - 1),
    sizes=st.lists(st.integers(-100, 100), max_size=3),
)
def test_any_value_survives(name: str, share: float, flag: bool, unset: int | None, sizes: list[int]) -> None:
    import tomllib

    parts = tuple(Part(size=size) for size in sizes)
    whole = Whole(flag=flag, unset=unset, several=parts, either=name, inner=Inner(name=name, share=share))
    assert from_dict(Whole, tomllib.loads(dump(whole))) == whole


def test_chapters_become_tables_and_unset_values_comments() -> None:
    text = dump(Whole(several=(Part(size=2),)))
    assert "# unset =  # nothing yet" in text
    assert '[inner]\nname = "x"  # any text' in text
    assert "# A chapter." in text
    assert 'several = [{ kind = "part", size = 2 }]  # a list of parts' in text


def test_a_table_or_a_name() -> None:
    assert from_dict(Whole, {"either": {"kind": "part", "size": 3}}).either == Part(size=3)
    assert from_dict(Whole, {"either": "other"}).either == "other"
    with pytest.raises(UsageError, match="unknown key several.1.sise; did you mean size?"):
        from_dict(Whole, {"several": [{"kind": "part"}, {"kind": "part", "sise": 1}]})


def test_a_table_without_a_kind_is_of_the_usual_one() -> None:
    design = from_dict(EncoderDecoderDesign, {"positions": {"base": 5.0}, "attention": {"scaled": False}})
    assert (design.positions, design.attention) == (Sinusoidal(base=5.0), Fused(scaled=False))


def test_a_byte_order_mark_is_not_an_error(tmp_path: Path) -> None:
    assert load(TextEncoderDesign, written(b"\xef\xbb\xbfwidth = 64\n", tmp_path)).width == 64


# ---------------------------------------------------------------- what is wrong

WRONG = {
    "wrong kind": (
        'positions = { kind = "rope" }',
        "positions.kind is 'rope'; choose one of alibi, bucketed, learned, none, rotary, sinusoidal, tener, ",
    ),
    "kind of another type": ("positions = { kind = [1] }", "positions.kind is [1]; choose one of"),
    "missing kind": ("encoder_attention = { rank = 5 }", "encoder_attention.kind is missing; choose one of fused, "),
    "a kind inside a kind": (
        'attention = { kind = "softmax", score = { kind = "dots" } }',
        "attention.score.kind is 'dots'; choose one of additive, cosine, dot, scaled_dot",
    ),
    "not a table": ('attention = "fused"', "attention is 'fused'; it must be a table, such as { kind = \"fused\" }"),
    "wrong type": ('width = "wide"', "width is 'wide': input should be a valid integer"),
    "a fraction": ("heads = 2.5", "heads is 2.5: input should be a valid integer"),
    "a number for yes or no": ("bias = 1", "bias is 1: input should be a valid boolean"),
    "a word for yes or no": ('bias = "yes"', "bias is 'yes': input should be a valid boolean"),
    "yes or no for a number": ("width = true", "width is True: input should be a valid integer"),
    "wrong type inside a part": (
        'positions = { kind = "rotary", base = "big" }',
        "positions.base is 'big': input should be a valid number",
    ),
    "not one of the words": (
        'tie_embeddings = "some"',
        "tie_embeddings is 'some': input should be 'all', 'output' or 'none'",
    ),
    "width not divisible by heads": (
        "width = 100\nheads = 8",
        "width is 100 and heads is 8: width must be a multiple of heads, or set head_width",
    ),
    "key heads": ("key_heads = 3", "heads is 8; it must be a multiple of key_heads = 3"),
    "no key heads": ("key_heads = 0", "key_heads is 0; it must be from 1 to 8"),
    "negative size": ("width = -4", "width is -4; it must be from 1 to 16384"),
    "no layers": ("encoder_layers = 0", "encoder_layers is 0; it must be from 1 to 100"),
    "enormous size": (
        "longest = 99999999999999999999",
        "longest is 99999999999999999999; it must be from 1 to 1000000",
    ),
    "negative size inside a part": (
        'feed_forward = { kind = "gelu", width = -3 }',
        "feed_forward: width is -3; it must be from 1 to 1000000",
    ),
    "dropout": ("dropout = 1.0", "dropout is 1.0; it must be at least 0 and less than 1"),
    "not a number": ("dropout = nan", "dropout is nan; it must be at least 0 and less than 1"),
    "infinite": ('positions = { kind = "rotary", base = inf }', "positions: base is inf; it must be from 1 to"),
    "odd buckets": ('positions = { kind = "bucketed", buckets = 7 }', "positions: buckets is 7; it must be even"),
    "unknown key": ("widht = 64", "unknown key widht; did you mean width? known here: width, heads, "),
    "unknown key inside a part": (
        'positions = { kind = "rotary", bass = 3.0 }',
        "unknown key positions.bass; did you mean base? known here: kind, base",
    ),
    "impossible pair": (
        'attention = { kind = "linear" }\npositions = { kind = "alibi" }',
        "linear attention cannot use alibi positions: they add a bias to scores",
    ),
    "looking ahead": ('attention = { kind = "linformer" }', "linformer attention cannot hide the future"),
    "unscaled": ('positions = { kind = "tener" }', "tener positions need attention that leaves scores unscaled: set"),
    "odd head width": ('width = 24\npositions = { kind = "rotary" }', "head width is 3; rotary positions need an even"),
    "layers to read": (
        "attended_layers = [0, 9]",
        "attended_layers is [0, 9]; it needs one encoder layer from 0 to 5 for each of 6",
    ),
    "another model": ('kind = "language_model"', "kind is 'language_model'; choose one of encoder_decoder"),
    "invalid TOML": ("width = ", "not valid TOML: "),
    "endless TOML": ("width = " + "[" * 5000, "not valid TOML: "),
    "not UTF-8": (b"width = 64\n# \xff\n", "not UTF-8 at byte 13; save the file as UTF-8"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_one_line(name: str, tmp_path: Path) -> None:
    text, line = WRONG[name]
    path = written(text, tmp_path)
    with pytest.raises(UsageError) as error:
        load(EncoderDecoderDesign, path)
    said = str(error.value)
    assert said.startswith(f"{path}: {line}")
    assert "\n" not in said


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("width = 64", "kind is missing; choose one of encoder, encoder_decoder, language_model"),
        ('kind = "seq2seq"', "kind is 'seq2seq'; choose one of encoder, encoder_decoder, language_model"),
        ('kind = "language_model"\nwidth = "a"', "width is 'a': input should be a valid integer"),
        ('kind = "encoder"\nlayers = 0', "layers is 0; it must be from 1 to 100"),
        ('kind = "encoder"\nencoder_layers = 3', "unknown key encoder_layers; did you mean layers?"),
    ],
)
def test_the_complaint_is_about_the_model_that_was_meant(text: str, line: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        load(Model, written(text, tmp_path))
    assert line in str(error.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere.toml: cannot be read: No such file"):
        load(TextEncoderDesign, tmp_path / "nowhere.toml")
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        load(TextEncoderDesign, tmp_path)


# ---------------------------------------------------------------- --set key=value


def test_overrides_speak_toml(tmp_path: Path) -> None:
    path = written('width = 64\npositions = { kind = "rotary" }', tmp_path)
    settings = ["heads=4", "positions.base = 500.0", "bias=false", 'norm={ kind = "rms" }', "residual.kind=pre"]
    design = load(TextEncoderDesign, path, settings)
    assert (design.width, design.heads, design.bias) == (64, 4, False)
    assert (design.positions.kind, design.norm.kind, design.residual.kind) == ("rotary", "rms", "pre")
    assert to_dict(design)["positions"]["base"] == 500.0


@pytest.mark.parametrize(
    ("setting", "line"),
    [
        ("heads", "--set heads: write it as key=value"),
        ("=4", "--set =4: write it as key=value"),
        ("width.x=1", "--set width.x=1: width is a value, not a table"),
    ],
)
def test_overrides_that_are_none(setting: str, line: str) -> None:
    with pytest.raises(UsageError, match=line):
        override({"width": 64}, [setting])


# ---------------------------------------------------------------- the JSON schema


def fits(value: Any, rule: dict[str, Any], whole: dict[str, Any]) -> bool:
    """As much of JSON schema as a schema of ours uses."""
    if "$ref" in rule:
        return fits(value, whole["$defs"][rule["$ref"].removeprefix("#/$defs/")], whole)
    if "anyOf" in rule:
        return any(fits(value, one, whole) for one in rule["anyOf"])
    if "enum" in rule or "const" in rule:
        return value in rule.get("enum", [rule.get("const")])
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
    if rule["type"] in ("integer", "number"):
        return isinstance(value, int if rule["type"] == "integer" else int | float) and not isinstance(value, bool)
    if not isinstance(value, kinds[rule["type"]]):
        return False
    if isinstance(value, list):
        return all(fits(item, rule["items"], whole) for item in value)
    if isinstance(value, dict):
        known = rule["properties"]
        missing = set(rule.get("required", ())) - value.keys()
        return not missing and value.keys() <= known.keys() and all(fits(v, known[k], whole) for k, v in value.items())
    return True


@pytest.mark.parametrize("design", designs(), ids=lambda design: design.kind)
def test_the_schema_accepts_what_loads(design: Any) -> None:
    for kind in (type(design), Model):
        whole = json.loads(json.dumps(schema(kind)))
        assert fits(to_dict(design), whole, whole)


@pytest.mark.parametrize(
    "wrong",
    [
        {"width": "wide"},
        {"widht": 3},
        {"positions": {"kind": "rope"}},
        {"bias": 1},
        {"tie_embeddings": 1},
        {"norm": "layer"},
    ],
    ids=str,
)
def test_the_schema_refuses_what_does_not(wrong: dict[str, Any]) -> None:
    whole = schema(LanguageModelDesign)
    assert not fits(to_dict(LanguageModelDesign()) | wrong, whole, whole)
    with pytest.raises(UsageError):
        from_dict(LanguageModelDesign, to_dict(LanguageModelDesign()) | wrong)


def test_the_schema_explains_and_closes_every_table() -> None:
    whole = schema(EncoderDecoderDesign)
    assert whole["properties"]["width"]["description"] == "width of the vectors between layers (d_model)"
    assert whole["$defs"]["Rotary"]["properties"]["base"]["description"]
    assert all(table["additionalProperties"] is False for table in (whole, *whole["$defs"].values()))


def test_a_design_cannot_be_changed() -> None:
    design = recipes.base()
    with pytest.raises(AttributeError):
        design.width = 3  # type: ignore[misc]
    assert replace(design, width=256).width == 256
