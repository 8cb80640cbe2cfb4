// OpeningNote: which model is being opened, what the engine does for that, how far it is, and a button that stops it:
// on a page of its own while nothing is open yet, in a bar over the drawing of the model before otherwise.
//
//   auto* page = new OpeningNote(OpeningNote::Page, document, engine);
#pragma once

#include <QLabel>
#include <QProgressBar>
#include <QPushButton>
#include <QWidget>

#include "views/document/document.h"
#include "views/widgets/fixed_height_label.h"

namespace graft {

class OpeningNote : public QWidget {
  Q_OBJECT

 public:
  enum Form { Page, Bar };

  OpeningNote(Form form, Document& document, EngineClient& engine, QWidget* parent = nullptr);
  /// "Opening model.pt …"
  QString text() const { return name_->fullText(); }
  /// "starting the engine", "reading weights".
  QString doing() const { return doing_->fullText(); }
  QPushButton* cancel() { return cancel_; }
  void refreshTheme();

 private:
  void refresh();

  Document& document_;
  EngineClient& engine_;
  Form form_;
  FixedHeightLabel *name_, *doing_;
  QProgressBar* progress_;
  QPushButton* cancel_;
  QString what_;  ///< that the engine says
};

}  // namespace graft
