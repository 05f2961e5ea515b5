#include "packing.h"

#include <algorithm>
#include <numeric>

int64_t Packing::tokens() const {
    int64_t sum = 0;
    for (const Pass & pass : passes) sum += pass.batch.count();
    return sum;
}

namespace {

/** A row of the request, cut to the tokens that are needed. */
struct Row {
    size_t index;
    const int32_t * tokens;
    int64_t length;
    int64_t first; // index of its first token in the request
    int64_t common = 0; // how many first tokens it shares with the row before it
};

std::vector<Row> rows_of(const Rows & rows, const std::vector<int64_t> & needed) {
    std::vector<Row> all;
    int64_t first = 0;
    for (size_t r = 0; r < rows.lengths.size(); r++) {
        if (needed[r] > 0) all.push_back(Row{r, rows.tokens.data() + first, needed[r], first});
        first += rows.lengths[r];
    }
    return all;
}

/** Sorts rows by their tokens, so that rows with a common beginning are neighbours. Keeps the order when no two rows share enough. */
void bring_together(std::vector<Row> & rows) {
    std::vector<Row> sorted = rows;
    std::stable_sort(sorted.begin(), sorted.end(), [](const Row & a, const Row & b) {
        return std::lexicographical_compare(a.tokens, a.tokens + a.length, b.tokens, b.tokens + b.length);
    });
    bool any = false;
    for (size_t i = 1; i < sorted.size(); i++) {
        const Row & before = sorted[i - 1];
        Row & row = sorted[i];
        row.common = std::mismatch(row.tokens, row.tokens + std::min(row.length, before.length), before.tokens).first - row.tokens;
        any = any || row.common >= least_shared;
    }
    if (any) rows = std::move(sorted);
}

/**
 * The most tokens that a row adds to a pass with the row before it. The tree may branch up to least_shared − 1 tokens before the two rows
 * differ.
 */
int64_t added_by(const Row & row) { return row.length - std::max<int64_t>(0, row.common - least_shared + 1); }

/** Builds the tree of a pass. add(): rows [first, end) have their first `depth` tokens in common, which the segments of path_ hold. */
class Tree {
public:
    Tree(const std::vector<Row> & rows, Pass & pass, std::vector<int64_t> & places) : rows_(rows), pass_(pass), places_(places) {}

    void add(size_t first, size_t end, int64_t depth) {
        for (size_t group = first; group < end;) {
            size_t group_end = group + 1;
            int64_t common = rows_[group].length;
            for (; group_end < end && rows_[group_end].common >= depth + least_shared; group_end++) common = std::min(common, rows_[group_end].common);
            const Row & row = rows_[group];
            const bool more = common > depth;
            if (more) path_.push_back(pass_.batch.add_segment(row.tokens + depth, common - depth, path_.empty() ? -1 : path_.back()));
            if (group_end - group > 1)
                add(group, group_end, common);
            else
                place(row);
            if (more) path_.pop_back();
            group = group_end;
        }
    }

private:
    void place(const Row & row) {
        pass_.rows.push_back({row.index, path_.back()});
        int64_t at = row.first;
        for (int64_t index : path_) {
            const Segment & segment = pass_.batch.segments[static_cast<size_t>(index)];
            for (int64_t i = 0; i < segment.length; i++) places_[static_cast<size_t>(at++)] = segment.begin + i;
        }
    }

    const std::vector<Row> & rows_;
    Pass & pass_;
    std::vector<int64_t> & places_;
    std::vector<int64_t> path_;
};

} // namespace

Packing pack(const Rows & request, const std::vector<int64_t> & needed, int64_t most, bool share) {
    std::vector<Row> rows = rows_of(request, needed);
    if (share) bring_together(rows);
    const int64_t total = std::accumulate(rows.begin(), rows.end(), int64_t{0}, [](int64_t sum, const Row & row) { return sum + added_by(row); });
    // Passes have about equal size: a short last pass would dequantise every weight for a few tokens.
    const int64_t count = std::max<int64_t>(1, (total + most - 1) / most), target = (total + count - 1) / count;
    Packing packing{{}, std::vector<int64_t>(request.tokens.size(), -1)};
    for (size_t first = 0, end = 0; first < rows.size(); first = end) {
        int64_t tokens = rows[first].length;
        for (end = first + 1; end < rows.size() && tokens < target && tokens + added_by(rows[end]) <= most; end++) tokens += added_by(rows[end]);
        packing.passes.emplace_back();
        Tree(rows, packing.passes.back(), packing.places).add(first, end, 0);
    }
    return packing;
}
