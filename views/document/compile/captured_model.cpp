#include "views/document/compile/captured_model.h"

#include "views/document/async.h"
#include "views/document/document.h"
#include "views/document/document_replies.h"

namespace graft {

CapturedModel::CapturedModel(Document& document, QObject* parent) : QObject(parent), document_(document) {
  connect(&document_, &Document::opened, this, &CapturedModel::forget);
}

void CapturedModel::forget() {
  ++asked_;
  isAsked_ = false;
  if (graph_) freeAsync(std::move(graph_));
  graph_ = nullptr;
  whyNone_.clear();
}

void CapturedModel::ask() {
  if (isAsked_ || !document_.isOpen()) return;
  const int asked = asked_;
  isAsked_ = true;
  const int call =
      document_.ask(QStringLiteral("model/captured"), inParts({}), [this, asked](const EngineReply& reply) {
        if (asked != asked_) return;
        if (!reply.ok()) {
          isAsked_ = false;  // once more when somebody looks
          if (reply.errorCode == EngineReply::lostCode) return;
          whyNone_ = reply.cancelled() ? QString() : reply.error;
          return Q_EMIT changed();
        }
        decodeAsync(this, reply, [this, asked](const GraphStream::Decoded& decoded) {
          if (asked != asked_) return;
          graph_ = decoded.graph;
          whyNone_ = decoded.why;
          Q_EMIT changed();
        });
      });
  if (call == 0) isAsked_ = false;
}

}  // namespace graft
