// x W' + b. Weights lie in panels of columns, so that one pass over a panel serves several rows of x.
#pragma once
#include <algorithm>

#include "room.h"
#include "vectors.h"

struct Linear {
    int outputs = 0, inputs = 0, panels = 0;
    Room<uint8_t> bytes;  // int8 weights plus 128, four inputs of a column together; or
    Room<float> floats;   // the weights themselves
    Room<float> scale, bias;
};

// Each output's weights share one scale. Inputs are a multiple of 16.
static Linear pack(const float* weights, const float* bias, int outputs, int inputs, bool quantised) {
    Linear l;
    l.outputs = outputs, l.inputs = inputs, l.panels = (outputs + PANEL - 1) / PANEL;
    size_t padded = (size_t)l.panels * PANEL;
    l.scale.reserve(padded), l.bias.reserve(padded);
    if (quantised) memset(l.bytes.reserve(padded * inputs), 128, padded * inputs);
    else l.floats.reserve(padded * inputs);
    for (int i = 0; i < outputs; i++) {
        const float* row = weights + (size_t)i * inputs;
        float most = 1e-9f;
        for (int j = 0; j < inputs; j++) most = std::max(most, std::fabs(row[j]));
        l.scale[i] = most / 127, l.bias[i] = bias ? bias[i] : 0;
        size_t panel = (size_t)(i / PANEL) * PANEL * inputs, column = i % PANEL;
        for (int j = 0; j < inputs; j++)
            if (quantised) l.bytes[panel + (size_t)(j / 4) * PANEL * 4 + column * 4 + j % 4] =
                (uint8_t)(std::lrintf(row[j] / l.scale[i]) + 128);
            else l.floats[panel + (size_t)j * PANEL + column] = row[j];
    }
    return l;
}

// Rows of x, `ld` numbers apart, with their int8 twins: x = bytes * scale, and the sum of each row's bytes.
struct Input {
    const float* x;
    int rows, width, ld;
    Room<int8_t>& bytes;
    Room<float>& scale;
    Room<int>& sum;
};

static void quantise(const Input& in) {
    in.bytes.reserve((size_t)in.rows * in.width), in.scale.reserve(in.rows), in.sum.reserve(in.rows);
    for (int i = 0; i < in.rows; i++) {
        const float* x = in.x + (size_t)i * in.ld;
        int8_t* q = in.bytes + (size_t)i * in.width;
        Vec high = fill(1e-9f);
        for (int j = 0; j < in.width; j += LANES) high = larger(high, magnitude(load(x + j)));
        float most = highest(high), by = 127 / most;
        Int sum{};
        for (int j = 0; j < in.width; j += LANES) {
            Int v = whole(load(x + j) * by);
            sum += v;
            *(Bytes*)(q + j) = __builtin_convertvector(v, Bytes);
        }
        in.scale[i] = most / 127, in.sum[i] = total(sum);
    }
}

template <int M> using Tile = Vec[M][COLS];

// Weights come from memory while others are used: of each panel, all tiles together fetch the one that follows.
struct Ahead {
    const char* at;
    int stride;  // bytes to fetch while one vector of each column is multiplied

    inline void fetch() {
        __builtin_prefetch(at);
        if (stride > 64) __builtin_prefetch(at + 64);
        if (stride > 128) __builtin_prefetch(at + 128), __builtin_prefetch(at + 192);
        at += stride;
    }
};

template <int M>
static inline void multiply_bytes(const Linear& l, const Input& in, int row, int panel, Ahead ahead, Tile<M>& r) {
    Int sums[M][COLS] = {};
    const uint8_t* w = l.bytes + (size_t)panel * PANEL * l.inputs;
    const int8_t* a = in.bytes + (size_t)row * l.inputs;
    for (int k = 0; k < l.inputs; k += 4, w += PANEL * 4) {
        ahead.fetch();
        Int columns[COLS];
        for (int j = 0; j < COLS; j++) columns[j] = *(const Int*)(w + j * BYTES);
        for (int m = 0; m < M; m++) {
            int four;
            memcpy(&four, a + (size_t)m * l.inputs + k, 4);
            for (int j = 0; j < COLS; j++) sums[m][j] = dot4(sums[m][j], columns[j], four);
        }
    }
    const float *scale = l.scale + panel * PANEL, *bias = l.bias + panel * PANEL;
    for (int m = 0; m < M; m++)
        for (int j = 0; j < COLS; j++) {
            Vec exact = __builtin_convertvector(sums[m][j] - 128 * in.sum[row + m], Vec);
            r[m][j] = exact * (load(scale + j * LANES) * in.scale[row + m]) + load(bias + j * LANES);
        }
}

template <int M>
static inline void multiply_floats(const Linear& l, const Input& in, int row, int panel, Ahead ahead, Tile<M>& r) {
    for (int m = 0; m < M; m++)
        for (int j = 0; j < COLS; j++) r[m][j] = load(l.bias + panel * PANEL + j * LANES);
    const float* w = l.floats + (size_t)panel * PANEL * l.inputs;
    const float* a = in.x + (size_t)row * in.ld;
    for (int k = 0; k < l.inputs; k++, w += PANEL) {
        ahead.fetch();
        Vec columns[COLS];
        for (int j = 0; j < COLS; j++) columns[j] = load(w + j * LANES);
        for (int m = 0; m < M; m++)
            for (int j = 0; j < COLS; j++) r[m][j] += columns[j] * a[(size_t)m * in.ld + k];
    }
}

// Where results go: rows `ld` apart, with room for whole panels; first `relu`, then `add` is added.
struct Output {
    float* at;
    int ld;
    const float* add = nullptr;
    bool relu = false;
};

template <int M>
static void tile(const Linear& l, const Input& in, int row, int panel, int column, Ahead ahead, const Output& out) {
    Tile<M> r;
    if (l.bytes) multiply_bytes<M>(l, in, row, panel, ahead, r);
    else multiply_floats<M>(l, in, row, panel, ahead, r);
    for (int m = 0; m < M; m++)
        for (int j = 0; j < COLS; j++) {
            size_t at = (size_t)(row + m) * out.ld + column + j * LANES;
            Vec v = out.relu ? relu(r[m][j]) : r[m][j];
            store(out.at + at, out.add ? v + load(out.add + at) : v);
        }
}

// The panels from `first` up to `end`.
static void multiply(const Linear& l, const Input& in, const Output& out, int first, int end) {
    int tiles = (in.rows + ROWS - 1) / ROWS, near = tiles == 1;
    size_t size = (size_t)PANEL * l.inputs * (l.bytes ? 1 : sizeof(float));
    const char* weights = l.bytes ? (const char*)l.bytes.get() : (const char*)l.floats.get();
    for (int p = first; p < end; p++) {
        const char* next = weights + p * size + (near ? 4096 : size);  // a single tile runs just ahead of itself
        int column = (p - first) * PANEL;
        for (int i = 0; i < in.rows; i += ROWS) {
            Ahead ahead{next + (size_t)(i / ROWS) * (size / tiles), PANEL * 4 / tiles};
            switch (std::min(in.rows - i, ROWS)) {
                case 1: tile<1>(l, in, i, p, column, ahead, out); break;
                case 2: tile<2>(l, in, i, p, column, ahead, out); break;
                case 3: tile<3>(l, in, i, p, column, ahead, out); break;
                case 4: tile<4>(l, in, i, p, column, ahead, out); break;
#if defined(__AVX512BW__)
                case 5: tile<5>(l, in, i, p, column, ahead, out); break;
                case 6: tile<6>(l, in, i, p, column, ahead, out); break;
#endif
            }
        }
    }
}

// What one caller needs to multiply: two callers never share it.
struct Scratch {
    Room<int8_t> bytes;
    Room<float> scale;
    Room<int> sum;

    Input input(const Linear& l, const float* x, int rows, int ld) {
        Input in{x, rows, l.inputs, ld, bytes, scale, sum};
        if (l.bytes) quantise(in);
        return in;
    }
    void apply(const Linear& l, const float* x, int rows, int ld, const Output& out) {
        multiply(l, input(l, x, rows, ld), out, 0, l.panels);
    }
};
