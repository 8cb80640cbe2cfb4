// StageRibbon: what becomes of a model until it runs, stage by stage, below the tool bar: captured, normalised,
// rewritten by rules, grouped, generated, timed. Each chip says how much there is, what that changed, and whether it
// was verified; a click shows it on the canvas.
//
//   Captured 229 → Normalised 215 → Rules 61 → Groups 24 → Kernels 12 → 0.24 ms
#pragma once

#include <QAbstractButton>
#include <QWidget>
#include <optional>

#include "views/document/compile/compilation.h"
#include "views/document/document.h"

namespace graft {

/// One stage.
struct Stage {
  enum Kind { Captured, Normalised, Rules, Groups, Kernels, Time } kind = Captured;
  QString title, count{};       ///< "Rules", "61"
  QString change{}, verdict{};  ///< "−154", "all verified"
  QString tip{};
  int step = -1;           ///< of the history, whose graph it shows; -1: of the plan, or of the file
  bool isShown = false;    ///< the canvas shows it
  bool isWarning = false;  ///< something was taken back, or is not verified
};
/// The stages of the document as it is.
std::vector<Stage> stagesOf(Document& document);

class StageChip : public QAbstractButton {
  Q_OBJECT

 public:
  explicit StageChip(QWidget* parent = nullptr);
  void show(const Stage& stage);
  const Stage& stage() const { return stage_; }
  /// One of the two that are compared.
  void setMarked(bool on);
  bool isMarked() const { return marked_; }
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return sizeHint(); }

 protected:
  void paintEvent(QPaintEvent*) override;
  void enterEvent(QEnterEvent*) override { update(); }
  void leaveEvent(QEvent*) override { update(); }

 private:
  Stage stage_;
  bool marked_ = false;
};

class StageRibbon : public QWidget {
  Q_OBJECT

 public:
  explicit StageRibbon(Document& document, QWidget* parent = nullptr);
  const QList<StageChip*>& chips() const { return chips_; }
  /// The chip of that stage; null where the document has none.
  StageChip* chip(Stage::Kind kind) const;
  void refresh();
  /// What the canvas draws in place of the step that the document shows: Captured or Groups.
  void setDrawn(std::optional<Stage::Kind> kind);

 Q_SIGNALS:
  void chosen(const Stage& stage);
  /// Two chips were chosen, the second one with Ctrl.
  void compareAsked(const Stage& from, const Stage& to);

 protected:
  void changeEvent(QEvent*) override;

 private:
  void click(StageChip* chip);

  Document& document_;
  QList<StageChip*> chips_;
  std::optional<Stage::Kind> drawn_;
  StageChip* last_ = nullptr;  ///< chosen last
};

}  // namespace graft
