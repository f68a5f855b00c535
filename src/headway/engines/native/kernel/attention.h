// Norms, and who looks at whom. Scores need no scale: it is in the weights of the queries.
#pragma once
#include "room.h"
#include "vectors.h"

struct Norm {
    Room<float> gain, bias;  // none: no norm here
    float epsilon = 0;
    bool centred = false;  // layer norm; else root mean square
    int width = 0;         // features; the rest of the row is zero and stays so
};

static void normalise(const Norm& n, const float* x, float* y, int rows, int ld) {
    int whole = n.width / LANES * LANES;
    for (int i = 0; i < rows; i++, x += ld, y += ld) {
        Vec sum{}, square{};
        float rest = 0, mean = 0;
        if (n.centred) {
            for (int j = 0; j < whole; j += LANES) sum += load(x + j);
            for (int j = whole; j < n.width; j++) rest += x[j];
            mean = (total(sum) + rest) / n.width;
        }
        rest = 0;
        for (int j = 0; j < whole; j += LANES) square += (load(x + j) - mean) * (load(x + j) - mean);
        for (int j = whole; j < n.width; j++) rest += (x[j] - mean) * (x[j] - mean);
        float by = 1 / std::sqrt((total(square) + rest) / n.width + n.epsilon);
        for (int j = 0; j < ld; j += LANES)
            store(y + j, (load(x + j) - mean) * by * load(n.gain + j) + load(n.bias + j));
    }
}

static void softmax(float* x, int n) {  // x has room for whole vectors
    for (int i = n; i % LANES; i++) x[i] = -1e30f;
    Vec high = load(x), sum{};
    for (int i = LANES; i < n; i += LANES) high = larger(high, load(x + i));
    float most = highest(high);
    for (int i = 0; i < n; i += LANES) {
        Vec p = power(load(x + i) - most);
        store(x + i, p);
        sum += p;
    }
    float by = 1 / total(sum);
    for (int i = 0; i < n; i += LANES) store(x + i, load(x + i) * by);
}

// What positions do inside attention; nothing where they were added to the embeddings.
struct Places {
    Room<float> turn;  // rotary: [place][cosines, then sines] of half a head each
    Room<float> bias;  // by distance: [head][longest - 1 + key - query]
    int longest = 0;

    void rotate(float* heads, int place, int count, int width) const {
        if (!turn) return;
        const float *cosine = turn + (size_t)place * width, *sine = cosine + width / 2;
        for (int h = 0; h < count; h++, heads += width)
            for (int i = 0; i < width / 2; i++) {
                float a = heads[i], b = heads[i + width / 2];
                heads[i] = a * cosine[i] - b * sine[i], heads[i + width / 2] = a * sine[i] + b * cosine[i];
            }
    }
    void add_bias(float* scores, int count, int head, int query) const {
        if (!bias) return;
        const float* by = bias + (size_t)head * (2 * longest - 1) + longest - 1 - query;
        for (int k = 0; k < count; k++) scores[k] += by[k];
    }
};

struct Heads {
    int count, width;
};

// One sentence that is looked at: keys turned to [head][feature][padded], so that a vector holds many keys of one
// feature; values [key][ld].
struct Memory {
    const float *keys, *values;
    int length, padded, ld;
};

static void turn(const float* keys, int length, int ld, int padded, int width, float* out) {
    for (int s = 0; s < length; s++)
        for (int j = 0; j < width; j++) out[(size_t)j * padded + s] = keys[(size_t)s * ld + j];
}

// The sum of values by their weights; `value(i)` is where one lies. Four sums at a time: one would wait for itself.
template <class V> static inline void mix(const float* weight, int count, int width, V value, float* out) {
    int j = 0;
    for (; j + 4 * LANES <= width; j += 4 * LANES) {
        Vec a{}, b{}, c{}, d{};
        for (int i = 0; i < count; i++) {
            const float* v = value(i) + j;
            a += weight[i] * load(v), b += weight[i] * load(v + LANES);
            c += weight[i] * load(v + 2 * LANES), d += weight[i] * load(v + 3 * LANES);
        }
        store(out + j, a), store(out + j + LANES, b), store(out + j + 2 * LANES, c), store(out + j + 3 * LANES, d);
    }
    for (; j < width; j += LANES) {
        Vec sum{};
        for (int i = 0; i < count; i++) sum += weight[i] * load(value(i) + j);
        store(out + j, sum);
    }
}

// One query of each head looks at the memory. `place` is where it stands, if it looks at its own sentence.
static void attend(const float* q, const Memory& m, Heads heads, const Places* places, int place, float* score,
                   float* out) {
    int e = heads.width;
    for (int h = 0; h < heads.count; h++, q += e, out += e) {
        const float* keys = m.keys + (size_t)h * e * m.padded;
        for (int s = 0; s < m.length; s += LANES) {
            Vec a{}, b{}, c{}, d{};
            for (int j = 0; j < e; j += 4) {
                const float* k = keys + (size_t)j * m.padded + s;
                a += q[j] * load(k), b += q[j + 1] * load(k + m.padded);
                c += q[j + 2] * load(k + 2 * m.padded), d += q[j + 3] * load(k + 3 * m.padded);
            }
            store(score + s, a + b + c + d);
        }
        if (places) places->add_bias(score, m.length, h, place);
        softmax(score, m.length);
        mix(score, m.length, e, [&](int s) { return m.values + (size_t)s * m.ld + h * e; }, out);
    }
}

// One row looks back at what it has written: each key lies where the row's ancestor of that time put it, and its
// value `ahead` numbers further.
static void recall(const float* q, const float* const* keys, int length, int ahead, Heads heads, const Places& places,
                   float* score, float* out) {
    int e = heads.width;
    for (int h = 0; h < heads.count; h++, q += e, out += e) {
        for (int t = 0; t < length; t++) {
            Vec sum{};
            for (int i = 0; i < e; i += LANES) sum += load(q + i) * load(keys[t] + h * e + i);
            score[t] = total(sum);
        }
        places.add_bias(score, length, h, length - 1);
        softmax(score, length);
        mix(score, length, e, [&](int t) { return keys[t] + ahead + h * e; }, out);
    }
}
