// Sentences that were read and rows that are being written: encode, step, select.
#pragma once
#include <stdexcept>

#include "model.h"

static inline int up_to(int n, int whole) { return (n + whole - 1) / whole * whole; }

struct Sentence {
    int first, length, padded;  // its first token in the batch, its tokens, and these filled up to whole vectors
    size_t keys;                // where its turned keys begin
};

struct Looked {  // what one layer sees of the sources
    Room<float> keys, pairs;  // pairs: [token][keys, values]; keys: turned, sentence by sentence
};

class State {
    const Model& m;
    const Sizes& z;
    std::vector<Sentence> sentences;
    std::vector<int> sentence;           // of each row
    std::vector<int> table, other;       // table[row * stride + t]: where that row's key of time t lies in its block
    std::vector<std::vector<float*>> blocks;  // blocks[layer][t]: keys and values that all rows wrote at time t
    std::vector<const float*> own;       // one row's keys
    std::vector<Looked> looked;          // by decoder layer; the last is the encoder's own
    Arena arena;
    Room<float> stream, normed, wide, mixed, score, some;
    Scratch scratch;
    int written = 0, stride = 0;

public:
    explicit State(const Model& model) : m(model), z(model.size), blocks(z.decoder), looked(z.decoder + 1) {}

    int rows() const { return (int)sentence.size(); }
    int time() const { return written; }
    size_t bytes() const {
        size_t sum = arena.bytes() + (table.capacity() + other.capacity()) * sizeof(int) + scratch.bytes.bytes();
        for (auto* each : {&stream, &normed, &wide, &mixed, &score, &some}) sum += each->bytes();
        for (auto& each : looked) sum += each.keys.bytes() + each.pairs.bytes();
        return sum;
    }

    // ------------------------------------------------------------ reading

    // Sentences one after another, without padding; afterwards each has one row.
    void start(const int* ids, const int* lengths, int count) {
        size_t keys = 0;
        int tokens = 0, longest = 0;
        sentences.clear(), sentence.clear();
        for (int i = 0; i < count; i++) {
            if (lengths[i] < 1 || lengths[i] > z.longest) throw std::out_of_range("length");
            int padded = up_to(lengths[i], LANES);
            sentences.push_back({tokens, lengths[i], padded, keys});
            sentence.push_back(i);
            tokens += lengths[i], keys += (size_t)padded * z.mixed(), longest = std::max(longest, padded);
        }
        written = 0, arena.reset();
        stride = 0, table.clear();
        for (auto& each : blocks) each.clear();
        score.reserve(longest);
        encode(ids, tokens, keys);
    }

private:
    void encode(const int* ids, int tokens, size_t keys) {
        int d = z.width;
        float* x = stream.reserve((size_t)tokens * d);
        normed.reserve((size_t)tokens * d), mixed.reserve((size_t)tokens * z.mixed());
        for (auto& each : sentences)
            for (int i = each.first; i < each.first + each.length; i++)
                embed(m.source, ids[i], i - each.first, x + (size_t)i * d);
        for (int i = 0; i < z.encoder; i++) {
            const Layer& l = m.source.layers[i];
            look_around(l, before(l.around_self, tokens), tokens, keys);
            add(l.out, mixed, tokens, z.mixed(), l.around_self);
            think(l, tokens);
            show(i, tokens, keys);
        }
    }
    void look_around(const Layer& l, const float* x, int tokens, size_t room) {
        Looked& own = looked.back();
        int a = z.mixed();
        float *qkv = own.pairs.reserve((size_t)tokens * 3 * a), *keys = own.keys.reserve(room);
        scratch.apply(l.qkv, x, tokens, z.width, {qkv, 3 * a});
        for (auto& each : sentences) {
            float* first = qkv + (size_t)each.first * 3 * a;
            for (int i = 0; i < each.length; i++)  // queries and keys lie side by side
                m.source.places.rotate(first + (size_t)i * 3 * a, i, 2 * z.heads, z.head_width);
            turn(first + a, each.length, 3 * a, each.padded, a, keys + each.keys);
            Memory memory{keys + each.keys, first + 2 * a, each.length, each.padded, 3 * a};
            for (int i = 0; i < each.length; i++)
                attend(first + (size_t)i * 3 * a, memory, z.split(), &m.source.places, i, score,
                       mixed + (size_t)(each.first + i) * a);
        }
    }
    // The decoder layers that look at this encoder layer project what they see of it, once.
    void show(int layer, int tokens, size_t room) {
        const float* x = nullptr;
        int a = z.mixed();
        for (int i = 0; i < z.decoder; i++) {
            const Layer& l = m.target.layers[i];
            if (l.reads != layer) continue;
            if (!x) x = leave(m.source, tokens);
            float *pairs = looked[i].pairs.reserve((size_t)tokens * 2 * a), *keys = looked[i].keys.reserve(room);
            scratch.apply(l.memory, x, tokens, z.width, {pairs, 2 * a});
            for (auto& each : sentences)
                turn(pairs + (size_t)each.first * 2 * a, each.length, 2 * a, each.padded, a, keys + each.keys);
        }
    }

    // ------------------------------------------------------------ what layers share

    void embed(const Side& side, int id, int place, float* x) const {
        int words = &side == &m.source ? z.source_words : z.target_words;
        if (id < 0 || id >= words) throw std::out_of_range("id");
        const float *word = side.words + (size_t)id * z.width, *added = side.places_added;
        for (int j = 0; j < z.width; j++) x[j] = word[j] * z.scale + (added ? added[(size_t)place * z.width + j] : 0);
    }
    const float* before(const Norm& norm, int n) {
        if (z.place != PRE) return stream;
        normalise(norm, stream, normed, n, z.width);
        return normed;
    }
    void add(const Linear& l, const float* x, int n, int ld, const Norm& norm) {
        scratch.apply(l, x, n, ld, {stream, z.width, stream});
        if (z.place == POST) normalise(norm, stream, stream, n, z.width);
    }
    const float* leave(const Side& side, int n) { return before(side.last, n); }

    void think(const Layer& l, int n) {
        int f = l.up.outputs;
        const float* x = before(l.around_feed, n);
        float* h = wide.reserve((size_t)n * f);
        scratch.apply(l.up, x, n, z.width, {h, f, nullptr, z.feed == RELU});
        for (int i = 0; i < n && z.feed != RELU; i++) activate(h + (size_t)i * f);
        add(l.down, h, n, f, l.around_feed);
    }
    void activate(float* h) const {
        for (int j = 0; j < z.inner; j += LANES) {
            Vec x = load(h + j);
            if (z.feed == GELU) x = gelu(x);
            else if (z.feed == GELU_TANH) x = gelu_tanh(x);
            else if (z.feed == SWISH) x = swish(x);
            else x = swish(x) * load(h + z.inner + j);
            store(h + j, x);
        }
    }

    // ------------------------------------------------------------ writing

public:
    void step(const int* last) {
        int n = rows(), d = z.width;
        if (written >= z.longest) throw std::out_of_range("length");
        make_room();
        float* x = stream.reserve((size_t)n * d);
        normed.reserve((size_t)n * d), mixed.reserve((size_t)n * z.mixed()), wide.reserve((size_t)n * z.mixed());
        for (int r = 0; r < n; r++) embed(m.target, last[r], written, x + (size_t)r * d);
        for (int r = 0; r < n; r++) table[(size_t)r * stride + written] = r;
        for (int i = 0; i < z.decoder; i++) {
            const Layer& l = m.target.layers[i];
            look_back(l, i, before(l.around_self, n));
            add(l.out, mixed, n, z.mixed(), l.around_self);
            look_at_source(l, i, before(l.around_source, n));
            add(l.context, mixed, n, z.mixed(), l.around_source);
            think(l, n);
        }
        if (z.place == PRE) normalise(m.target.last, stream, stream, n, d);
        written++;
    }

private:
    void make_room() {  // for one more time in the table
        if (written < stride) return;
        int wider = std::max(16, 2 * stride);
        other.assign((size_t)rows() * wider, 0);
        for (int r = 0; r < rows(); r++)
            std::copy_n(table.begin() + (size_t)r * stride, written, other.begin() + (size_t)r * wider);
        table.swap(other), stride = wider;
        own.resize(stride), score.reserve(up_to(std::max(stride, longest_source()), LANES));
    }
    int longest_source() const {
        int longest = 0;
        for (auto& each : sentences) longest = std::max(longest, each.padded);
        return longest;
    }
    void look_back(const Layer& l, int layer, const float* x) {
        int n = rows(), a = z.mixed();
        float* block = arena.take((size_t)n * 2 * a);
        blocks[layer].push_back(block);
        Input in = scratch.input(l.qkv, x, n, z.width);
        multiply(l.qkv, in, {wide, a}, 0, a / PANEL);
        multiply(l.qkv, in, {block, 2 * a}, a / PANEL, l.qkv.panels);
        for (int r = 0; r < n; r++) {
            float* q = wide + (size_t)r * a;
            m.target.places.rotate(q, written, z.heads, z.head_width);
            m.target.places.rotate(block + (size_t)r * 2 * a, written, z.heads, z.head_width);
            for (int t = 0; t <= written; t++)
                own[t] = blocks[layer][t] + (size_t)table[(size_t)r * stride + t] * 2 * a;
            recall(q, own.data(), written + 1, a, z.split(), m.target.places, score, mixed + (size_t)r * a);
        }
    }
    void look_at_source(const Layer& l, int layer, const float* x) {
        int n = rows(), a = z.mixed();
        scratch.apply(l.query, x, n, z.width, {wide, a});
        for (int r = 0; r < n; r++) {
            const Sentence& s = sentences[sentence[r]];
            const float* values = looked[layer].pairs + (size_t)s.first * 2 * a + a;
            Memory memory{looked[layer].keys + s.keys, values, s.length, s.padded, 2 * a};
            attend(wide + (size_t)r * a, memory, z.split(), nullptr, 0, score, mixed + (size_t)r * a);
        }
    }

public:
    // Row i goes on from what row chosen[i] was. Only the table moves: keys and values stay where they were written.
    void select(const int* chosen, int count) {
        std::vector<int> before(count);
        for (int i = 0; i < count; i++) {
            if (chosen[i] < 0 || chosen[i] >= rows()) throw std::out_of_range("row");
            before[i] = sentence[chosen[i]];
        }
        other.resize((size_t)count * stride);
        for (int i = 0; i < count; i++)
            std::copy_n(table.begin() + (size_t)chosen[i] * stride, written, other.begin() + (size_t)i * stride);
        table.swap(other), sentence.swap(before);
    }

    // After a step: the scores of all pieces, a block of columns at a time, so that it stays in the cache.
    // Calls `each(row, scores, first, count)` for every row of every block; `scores` has room for whole vectors.
    template <class F> void scores(F each) {
        constexpr int BLOCK = 16;
        const Linear& head = m.head;
        int n = rows(), ld = BLOCK * PANEL;
        float* x = some.reserve((size_t)n * ld);
        Input in = scratch.input(head, stream, n, z.width);
        for (int p = 0; p < head.panels; p += BLOCK) {
            int end = std::min(p + BLOCK, head.panels), first = p * PANEL;
            multiply(head, in, {x, ld}, p, end);
            for (int r = 0; r < n; r++) each(r, x + (size_t)r * ld, first, std::min(end * PANEL, head.outputs) - first);
        }
    }
    void logits(float* out) {
        size_t words = z.target_words;
        scores([&](int row, const float* x, int first, int count) {
            std::copy_n(x, count, out + row * words + first);
        });
    }
};
