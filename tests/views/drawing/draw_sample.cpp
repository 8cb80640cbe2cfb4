// draw_sample OUT.svg|png [DEPTH] [light|dark] [layered|dot]: the encoder as a drawing, to look at.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/views/support/sample_graphs.h"
#include "views/drawing/drawing.h"

int main(int argc, char** argv) {
  using namespace graft;
  Graph g = test::encoder(6);
  DrawOptions o;
  if (argc > 2) o.depth = atoi(argv[2]);
  if (argc > 3 && !strcmp(argv[3], "dark")) o.theme = Theme::Dark;
  if (argc > 4 && !strcmp(argv[4], "dot")) o.engine = LayoutEngine::Graphviz;
  if (Status s = drawToFile(g, argv[1], o); !s) return std::puts(s.error().format().c_str()), 1;
}
