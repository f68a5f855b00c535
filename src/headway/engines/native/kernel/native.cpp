// What Python calls. Nothing is thrown across this line: 0 is success.
#include "search.h"

enum Result { DONE, NO_MEMORY, OUT_OF_RANGE, FAULT };

template <class F> static int safely(F act) {
    try {
        act();
        return DONE;
    } catch (const std::bad_alloc&) {
        return NO_MEMORY;
    } catch (const std::out_of_range&) {
        return OUT_OF_RANGE;
    } catch (...) {
        return FAULT;
    }
}

extern "C" {
int headway_model(const Sizes* sizes, const float* const* tensors, int count, const int* reads, Model** out) {
    return safely([&] { *out = read_model(*sizes, tensors, count, reads); });
}
void headway_free_model(Model* model) { delete model; }

int headway_state(const Model* model, State** out) {
    return safely([&] { *out = new State(*model); });
}
void headway_free_state(State* state) { delete state; }
int64_t headway_bytes(const State* state) { return (int64_t)state->bytes(); }
int headway_rows(const State* state) { return state->rows(); }

int headway_start(State* state, const int* ids, const int* lengths, int sentences) {
    return safely([&] { state->start(ids, lengths, sentences); });
}
int headway_step(State* state, const int* last, float* logits) {
    return safely([&] {
        state->step(last);
        state->logits(logits);
    });
}
int headway_select(State* state, const int* rows, int count) {
    return safely([&] { state->select(rows, count); });
}
int headway_search(State* state, const int* ids, const int* lengths, int sentences, const int* caps, const Wish* wish,
                   const Found* found) {
    return safely([&] {
        state->start(ids, lengths, sentences);
        Search(*state, *wish, *found).run(caps);
    });
}

// Multiplies rows of x by the weights and adds the bias, as every layer does: y is rows x outputs. Inputs are a multiple
// of 16.
int headway_multiply(const float* weights, const float* bias, const float* x, float* y, int outputs, int inputs,
                     int rows, int quantised) {
    return safely([&] {
        Linear l = pack(weights, bias, outputs, inputs, quantised);
        Scratch scratch;
        int ld = l.panels * PANEL;
        std::vector<float> padded((size_t)rows * ld);
        scratch.apply(l, x, rows, inputs, {padded.data(), ld});
        for (int i = 0; i < rows; i++) std::copy_n(padded.data() + (size_t)i * ld, outputs, y + (size_t)i * outputs);
    });
}

// Multiplies by the kernel and by hand; the largest difference as a share of the largest result, in millionths.
// In whole numbers (of which each row has one of 127, so that all scales are 1) int8 must be exact.
int headway_check(int quantised, int whole) {
    constexpr int inputs = 64, outputs = 2 * PANEL - 3, rows = 2 * ROWS - 1;
    std::vector<float> w(outputs * inputs), x(rows * inputs), bias(outputs), y(rows * outputs);
    unsigned seed = 1;
    auto random = [&] { return (float)((seed = seed * 1664525 + 1013904223) >> 8) / (1 << 23) - 1; };
    for (auto* all : {&w, &x, &bias})
        for (auto& each : *all) each = whole ? std::rint(127 * random()) : random();
    if (whole)
        for (auto* all : {&w, &x})
            for (size_t i = 0; i < all->size(); i += inputs) (*all)[i] = 127;
    if (headway_multiply(w.data(), bias.data(), x.data(), y.data(), outputs, inputs, rows, quantised)) return 1000000;
    double worst = 0, largest = 0;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < outputs; j++) {
            double sum = bias[j];
            for (int k = 0; k < inputs; k++) sum += (double)x[i * inputs + k] * w[j * inputs + k];
            worst = std::max(worst, std::fabs(sum - y[i * outputs + j]));
            largest = std::max(largest, std::fabs(sum));
        }
    return worst <= largest ? (int)std::ceil(1e6 * worst / largest) : 1000000;
}
}
