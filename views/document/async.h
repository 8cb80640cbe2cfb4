// Work on a thread of the pool whose result comes back to a QObject's thread; nothing comes where that object is gone.
//
//   runAsync(this, [json] { return decodeGraph(json); }, [this](const GraphRef& graph) { show(graph); });
#pragma once

#include <QFutureWatcher>
#include <QPromise>
#include <QThreadPool>
#include <memory>
#include <type_traits>
#include <utility>

namespace graft {

template <class Work, class Done>
void runAsync(QObject* receiver, Work work, Done done) {
  using T = std::invoke_result_t<Work>;
  auto promise = std::make_shared<QPromise<T>>();
  // The watcher belongs to the receiver: it goes with it, and hears of the result on the receiver's thread.
  auto* watcher = new QFutureWatcher<T>(receiver);
  QObject::connect(watcher, &QFutureWatcherBase::finished, receiver, [watcher, done = std::move(done)] {
    watcher->deleteLater();
    done(watcher->result());
  });
  watcher->setFuture(promise->future());
  promise->start();
  QThreadPool::globalInstance()->start([promise, work = std::move(work)] {
    promise->addResult(work());
    promise->finish();
  });
}

/// Frees a large value where nobody waits for it: a graph of 100,000 nodes takes a tenth of a second and more.
template <class T>
void freeAsync(T value) {
  QThreadPool::globalInstance()->start([kept = std::make_shared<T>(std::move(value))] {});
}

}  // namespace graft
