#include "core/training/max_flow.h"

#include <algorithm>

namespace graft {

void MaxFlow::addEdge(size_t from, size_t to, Capacity capacity) {
  edges_.push_back({to, first_[from], capacity});
  first_[from] = edges_.size() - 1;
  edges_.push_back({from, first_[to], 0});
  first_[to] = edges_.size() - 1;
}

bool MaxFlow::findLevels(size_t source, size_t sink) {
  level_.assign(first_.size(), -1);
  level_[source] = 0;
  std::vector<size_t> queue{source};
  for (size_t i = 0; i < queue.size(); ++i)
    for (size_t e = first_[queue[i]]; e != none; e = edges_[e].next)
      if (edges_[e].left > 0 && level_[edges_[e].to] < 0) {
        level_[edges_[e].to] = level_[queue[i]] + 1;
        queue.push_back(edges_[e].to);
      }
  return level_[sink] >= 0;
}

// One walk from the source, by levels; dead ends are left for good. Without recursion: graphs are thousands of nodes
// deep.
MaxFlow::Capacity MaxFlow::sendAlongOnePath(size_t source, size_t sink) {
  std::vector<size_t> path;
  size_t at = source;
  while (at != sink) {
    size_t& e = current_[at];
    while (e != none && (edges_[e].left <= 0 || level_[edges_[e].to] != level_[at] + 1)) e = edges_[e].next;
    if (e != none) {
      path.push_back(e);
      at = edges_[e].to;
      continue;
    }
    if (path.empty()) return 0;
    at = edges_[path.back() ^ 1].to;
    current_[at] = edges_[path.back()].next;
    path.pop_back();
  }
  Capacity sent = infinite;
  for (size_t e : path) sent = std::min(sent, edges_[e].left);
  if (sent >= infinite) return infinite;
  for (size_t e : path) {
    if (edges_[e].left < infinite) edges_[e].left -= sent;
    if (edges_[e ^ 1].left < infinite) edges_[e ^ 1].left += sent;
  }
  return sent;
}

MaxFlow::Capacity MaxFlow::run(size_t source, size_t sink) {
  Capacity flow = 0;
  while (findLevels(source, sink)) {
    current_ = first_;
    while (const Capacity sent = sendAlongOnePath(source, sink)) {
      if (sent >= infinite) return infinite;
      flow += sent;
    }
  }
  return flow;
}

}  // namespace graft
