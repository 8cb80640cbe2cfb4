// CapturedModel: the open model as its file has it, before the normal form: the first stage of compilation. The engine
// reads the file once more for it, so it is asked for when somebody looks.
//
//   CapturedModel& c = document.compilation().captured();   c.ask();   if (c.graph()) show(c.graph());
#pragma once

#include <QObject>

#include "views/document/document_info.h"

namespace graft {

class Document;

class CapturedModel : public QObject {
  Q_OBJECT

 public:
  explicit CapturedModel(Document& document, QObject* parent = nullptr);
  /// Null while it is not known.
  GraphRef graph() const { return graph_; }
  /// Why there is none; empty where there is one, or one is on its way.
  QString whyNone() const { return whyNone_; }
  void ask();

 Q_SIGNALS:
  void changed();

 private:
  void forget();

  Document& document_;
  GraphRef graph_;
  QString whyNone_;
  int asked_ = 0;  ///< grows with each model
  bool isAsked_ = false;
};

}  // namespace graft
