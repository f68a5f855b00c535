// The weights, as the caller hands them over: sizes, and a list of tensors in a fixed order.
#pragma once
#include "attention.h"
#include "linear.h"

enum Feed { RELU, GELU, GELU_TANH, SWISH, SWIGLU };
enum Place { POST, PRE, NOWHERE };  // where norms stand: after the sum, before the sublayer, or none at all

// Widths are multiples of 64 and head widths of 16; what is more than the design's is zero.
struct Sizes {
    int encoder, decoder;        // layers
    int width, features;         // of a vector; how many of it are real
    int heads, head_width, inner;
    int source_words, target_words;
    int longest;                 // places that the tables know
    int feed, place, centred, quantised;
    float scale;                 // of the embeddings
    float epsilon[2];            // of the encoder's and the decoder's norms

    int mixed() const { return heads * head_width; }
    Heads split() const { return {heads, head_width}; }
};

struct Layer {
    Linear qkv, out, query, memory, context, up, down;
    Norm around_self, around_source, around_feed;
    int reads = 0;  // the encoder layer that it looks at
};

struct Side {
    Room<float> words, places_added;
    Places places;
    std::vector<Layer> layers;
    Norm last;
};

struct Model {
    Sizes size;
    Side source, target;
    Linear head;
};

// Takes tensors one by one. A missing one is a null pointer: a bias of zero, a norm or a table that is not used.
class Loader {
    const float* const* tensors;
    int count, used = 0;
    const Sizes& z;

public:
    Loader(const float* const* tensors, int count, const Sizes& sizes) : tensors(tensors), count(count), z(sizes) {}
    bool finished() const { return used == count; }

    const float* next() {
        if (used == count) throw std::bad_alloc();
        return tensors[used++];
    }
    Room<float> copy(size_t size) {
        const float* from = next();
        if (!from) return {};
        Room<float> to(size);
        memcpy(to.get(), from, size * sizeof(float));
        return to;
    }
    Linear linear(int outputs, int inputs) {
        const float *weights = next(), *bias = next();
        return pack(weights, bias, outputs, inputs, z.quantised);
    }
    Norm norm(int side) {
        Norm n;
        n.gain = copy(z.width), n.bias = copy(z.width);
        if (!n.bias) n.bias.reserve(z.width);
        n.epsilon = z.epsilon[side], n.centred = z.centred, n.width = z.features;
        return n;
    }
    Layer layer(bool decoder) {
        Layer l;
        int d = z.width, mixed = z.mixed(), up = z.feed == SWIGLU ? 2 * z.inner : z.inner;
        l.qkv = linear(3 * mixed, d), l.out = linear(d, mixed), l.around_self = norm(decoder);
        if (decoder) {
            l.query = linear(mixed, d), l.memory = linear(2 * mixed, d), l.context = linear(d, mixed);
            l.around_source = norm(decoder);
        }
        l.up = linear(up, d), l.down = linear(d, z.inner), l.around_feed = norm(decoder);
        return l;
    }
    Side side(bool decoder) {
        Side s;
        size_t words = decoder ? z.target_words : z.source_words, longest = z.longest;
        s.words = copy(words * z.width), s.places_added = copy(longest * z.width);
        s.places.turn = copy(longest * z.head_width), s.places.bias = copy((2 * longest - 1) * z.heads);
        s.places.longest = z.longest;
        for (int i = 0; i < (decoder ? z.decoder : z.encoder); i++) s.layers.push_back(layer(decoder));
        s.last = norm(decoder);
        return s;
    }
};

static Model* read_model(const Sizes& sizes, const float* const* tensors, int count, const int* reads) {
    auto* m = new Model{sizes, {}, {}, {}};
    try {
        Loader loader(tensors, count, m->size);
        m->source = loader.side(false), m->target = loader.side(true);
        m->head = loader.linear(sizes.target_words, sizes.width);
        if (!loader.finished()) throw std::bad_alloc();
        for (int i = 0; i < sizes.decoder; i++) m->target.layers[i].reads = reads[i];
    } catch (...) {
        delete m;
        throw;
    }
    return m;
}
