// Memory for numbers: aligned, and on large pages where there is much of it, as weights are streamed.
#pragma once
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

template <class T> class Room {
    T* at = nullptr;
    size_t held = 0;

public:
    Room() = default;
    explicit Room(size_t count) { reserve(count); }
    Room(Room&& other) noexcept : at(std::exchange(other.at, nullptr)), held(std::exchange(other.held, 0)) {}
    Room& operator=(Room&& other) noexcept {
        std::swap(at, other.at);
        std::swap(held, other.held);
        return *this;
    }
    ~Room() { free(at); }
    operator T*() const { return at; }
    T* get() const { return at; }
    size_t bytes() const { return held * sizeof(T); }

    // At least so many, and a vector more, as the last vector may reach beyond the end. What was there is lost.
    T* reserve(size_t count) {
        if (count + 64 / sizeof(T) <= held) return at;
        constexpr size_t PAGE = size_t(1) << 21;
        size_t bytes = count * sizeof(T) + 64, align = bytes >= PAGE ? PAGE : 64;
        bytes = (bytes + align - 1) / align * align;
        free(at);
        held = 0;
        at = (T*)aligned_alloc(align, bytes);
        if (!at) throw std::bad_alloc();
        if (align == PAGE) madvise(at, bytes, MADV_HUGEPAGE);
        memset((void*)at, 0, bytes);
        held = bytes / sizeof(T);
        return at;
    }
};

// Many pieces of memory that are given back all at once.
class Arena {
    static constexpr size_t LARGEST = 1 << 23;  // numbers in one piece, unless more are asked for at once
    std::vector<Room<float>> chunks;
    size_t chunk = 0, used = 0;

public:
    float* take(size_t count) {
        while (chunk < chunks.size() && used + count > chunks[chunk].bytes() / sizeof(float) - 16) chunk++, used = 0;
        if (chunk == chunks.size()) {
            size_t twice = chunks.empty() ? 1 << 16 : chunks.back().bytes() / 2, least = std::min(twice, LARGEST);
            chunks.emplace_back(std::max(count, least));
            used = 0;
        }
        float* found = chunks[chunk] + used;
        used += (count + 15) / 16 * 16;
        return found;
    }
    void reset() { chunk = used = 0; }
    size_t bytes() const {
        size_t sum = 0;
        for (auto& each : chunks) sum += each.bytes();
        return sum;
    }
};
