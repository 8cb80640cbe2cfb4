// graft engine: the server that graft-gui talks to.
#include "app/engine/server.h"

#include <unistd.h>
#if __has_include(<malloc.h>)
#include <malloc.h>
#endif

#include <csignal>

#include "app/commands/options.h"

namespace graft::cli {

void addEngine(CLI::App& app, Run& run) {
  auto* c = app.add_subcommand("engine", "Serve JSON-RPC 2.0 on stdin and stdout, as graft-gui asks for");
  addLibraryOption(*c);
  c->callback([&run] {
    run = [] {
      std::signal(SIGPIPE, SIG_IGN);
#ifdef M_MXFAST
      // Graphs and their JSON are millions of small pieces, and malloc would merge its lists of freed ones again and
      // again. The memory of tensors is allocated as before: it is part of what runs measure.
      mallopt(M_MXFAST, 0);
#endif
      // Whatever prints to stdout (a model's prim::Print, a library) must not tear the protocol: it goes to stderr.
      const int out = ::dup(STDOUT_FILENO);
      ::dup2(STDERR_FILENO, STDOUT_FILENO);
      return serve(semantics(), STDIN_FILENO, out);
    };
  });
}

}  // namespace graft::cli
