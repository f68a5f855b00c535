// Beam search, by the rules of headway/search/beam.py; a beam of one is greedy search.
#pragma once
#include <limits>

#include "state.h"

constexpr int FORBIDDEN = 3, BEGIN = 2, END = 3;  // padding, unknown and beginning never come out
constexpr float NEVER = -std::numeric_limits<float>::infinity();

struct Wish {
    int beam, keep, enough;  // rows of a sentence, outputs given back, finished outputs after which to stop
    float alpha;             // how much length is favoured
};

// Where outputs go: `keep` places for each sentence, each with `room` pieces.
struct Found {
    int room;
    int *ids, *lengths, *finished, *counts;  // counts: outputs of each sentence
    float *piece_scores, *totals, *scores;   // piece_scores: one more than the length where the output has ended
};

struct Candidate {
    float total, score;
    int parent, piece;
};

// The highest so many, in order. Whatever it is given, even NaN, it stays within its room.
template <class T, class Key> static void insert(T* sorted, int count, const T& next, Key key) {
    if (!(key(next) > key(sorted[count - 1]))) return;
    int place = count - 1;
    for (; place > 0 && key(sorted[place - 1]) < key(next); place--) sorted[place] = sorted[place - 1];
    sorted[place] = next;
}

class Search {
    struct Node {
        int parent, piece;  // parent: the node of the piece before, or -1
        float score;
    };
    struct Output {
        int node, length;  // length: pieces, the end not counted
        float total, score;
    };
    struct Sentence {
        int place, cap, count;     // its place in the batch, the steps it gets, and outputs that have finished
        std::vector<Output> pool;  // the best so many, the best first; empty places have a score of minus infinity
    };
    struct Piece {
        float score;
        int id;
    };

    State& state;
    const Wish& wish;
    const Found& found;
    std::vector<Node> nodes;
    std::vector<Sentence> sentences;    // that go on
    std::vector<float> weights;         // what a total of each length is multiplied by
    std::vector<int> last, node, next_last, next_node, chosen;
    std::vector<float> totals, next_totals, most, sum;  // by row
    std::vector<Piece> best;            // by row: the best pieces
    std::vector<Candidate> candidates;  // of one sentence

public:
    Search(State& state, const Wish& wish, const Found& found) : state(state), wish(wish), found(found) {}

    void run(const int* caps) {
        int longest = 0;
        for (int i = 0; i < state.rows(); i++) {
            sentences.push_back({i, caps[i], 0, std::vector<Output>(wish.keep, {-1, 0, NEVER, NEVER})});
            longest = std::max(longest, caps[i]);
        }
        for (int i = 1; i <= longest; i++) weights.push_back((float)std::pow((5 + i) / 6.0, -(double)wish.alpha));
        last.assign(state.rows(), BEGIN), node.assign(state.rows(), -1), totals.assign(state.rows(), 0);
        candidates.resize(2 * wish.beam);
        for (int step = 0; !sentences.empty(); step++) {
            state.step(last.data());
            find_best();
            advance(step);
        }
    }

private:
    // Each row's best pieces as log-probabilities. The sum of all probabilities is made block by block.
    void find_best() {
        int n = state.rows(), k = 2 * wish.beam;
        best.assign((size_t)n * k, {NEVER, 0}), most.assign(n, -1e30f), sum.assign(n, 0);
        state.scores([&](int r, float* x, int first, int count) {
            for (int i = count; i % LANES; i++) x[i] = -1e30f;
            add_up(r, x, count);
            if (first == 0) std::fill_n(x, std::min(FORBIDDEN, count), NEVER);
            pick(&best[(size_t)r * k], k, x, first, count);
        });
        for (int r = 0; r < n; r++) {
            float log_sum = most[r] + std::log(sum[r]);
            for (int j = 0; j < k; j++) best[(size_t)r * k + j].score -= log_sum;
        }
    }
    void add_up(int r, const float* x, int count) {
        Vec high = fill(most[r]), all{};
        for (int i = 0; i < count; i += LANES) high = larger(high, load(x + i));
        float now = highest(high);
        for (int i = 0; i < count; i += LANES) all += power(load(x + i) - now);
        sum[r] = sum[r] * std::exp(most[r] - now) + total(all), most[r] = now;
    }
    static void pick(Piece* sorted, int k, const float* x, int first, int count) {
        for (int i = 0; i < count; i += LANES) {
            if (highest(load(x + i)) <= sorted[k - 1].score) continue;
            for (int j = i; j < std::min(i + LANES, count); j++)
                insert(sorted, k, Piece{x[j], first + j}, [](const Piece& p) { return p.score; });
        }
    }

    // One step of every sentence; those that are done leave.
    void advance(int step) {
        int beam = state.rows() / (int)sentences.size();
        size_t stay = 0;
        next_last.clear(), next_node.clear(), next_totals.clear(), chosen.clear();
        for (size_t i = 0; i < sentences.size(); i++) {
            gather(i * beam, beam);
            finish(sentences[i], step);
            size_t begin = next_last.size();
            go_on();
            if (!is_done(sentences[i], begin, step)) {
                if (stay != i) sentences[stay] = std::move(sentences[i]);
                stay++;
                continue;
            }
            hand_over(sentences[i], begin, step);
            next_last.resize(begin), next_node.resize(begin), next_totals.resize(begin), chosen.resize(begin);
        }
        bool same = stay == sentences.size() && beam == 1 && wish.beam == 1;  // greedy: nothing has moved
        sentences.resize(stay);
        last.swap(next_last), node.swap(next_node), totals.swap(next_totals);
        if (stay && !same) state.select(chosen.data(), (int)chosen.size());
    }
    // The best continuations of a sentence, over all its rows.
    void gather(size_t row, int beam) {
        int k = 2 * wish.beam;
        std::fill(candidates.begin(), candidates.end(), Candidate{NEVER, NEVER, 0, 0});
        for (int parent = 0; parent < beam; parent++)
            for (int j = 0; j < k; j++) {
                const Piece& p = best[(row + parent) * k + j];
                Candidate next{totals[row + parent] + p.score, p.score, parent, p.id};
                if (!(next.total > candidates.back().total)) break;  // the row's others are lower still
                insert(candidates.data(), k, next, [](const Candidate& c) { return c.total; });
            }
        for (auto& each : candidates) each.parent += (int)row;
    }
    // Ends among the first candidates of a beam's size have finished.
    void finish(Sentence& s, int step) {
        for (int i = 0; i < wish.beam; i++) {
            const Candidate& c = candidates[i];
            if (c.piece != END || !(c.total > NEVER)) continue;
            s.count++;
            nodes.push_back({node[c.parent], c.piece, c.score});
            Output next{(int)nodes.size() - 1, step, c.total, c.total * weights[step]};
            insert(s.pool.data(), wish.keep, next, [](const Output& o) { return o.score; });
        }
    }
    // The first so many others are the next beam.
    void go_on() {
        int rows = 0;
        for (auto& c : candidates) {
            if (c.piece == END || rows == wish.beam) continue;
            nodes.push_back({node[c.parent], c.piece, c.score});
            next_last.push_back(c.piece), next_node.push_back((int)nodes.size() - 1), next_totals.push_back(c.total);
            chosen.push_back(c.parent);
            rows++;
        }
    }
    bool is_done(const Sentence& s, size_t begin, int step) const {
        float top = *std::max_element(next_totals.begin() + begin, next_totals.end());
        return step + 1 >= s.cap || s.count >= wish.enough || top * weights[s.cap - 1] <= s.pool.back().score;
    }
    // Finished outputs; where they are too few, outputs that the cap has cut.
    void hand_over(const Sentence& s, size_t begin, int step) {
        int count = 0;
        for (auto& each : s.pool)
            if (each.score > NEVER) write(s, count++, each, true);
        for (size_t i = begin; i < next_last.size() && count < wish.keep; i++) {
            if (!(next_totals[i] > NEVER)) break;
            write(s, count++, {next_node[i], step + 1, next_totals[i], next_totals[i] * weights[step]}, false);
        }
        found.counts[s.place] = count;
    }
    void write(const Sentence& s, int place, const Output& o, bool finished) {
        size_t at = (size_t)s.place * wish.keep + place;
        found.lengths[at] = o.length, found.finished[at] = finished;
        found.totals[at] = o.total, found.scores[at] = o.score;
        for (int t = o.length - !finished, n = o.node; t >= 0 && n >= 0; t--, n = nodes[n].parent) {
            found.ids[at * found.room + t] = nodes[n].piece;
            found.piece_scores[at * found.room + t] = nodes[n].score;
        }
    }
};
