// CodePanel: the kernel that is looked at, as loops and as code, beside the drawing of its nodes: one colour for a node
// in all three. Loops and C++ can be edited; what computes what the operators do is kept in the plan.
#pragma once

#include <QHash>
#include <QPushButton>
#include <QSplitter>
#include <QStackedWidget>
#include <QTabBar>

#include "views/document/compile/compilation.h"
#include "views/panels/compile/code_text.h"
#include "views/panels/compile/node_legend.h"
#include "views/panels/panel.h"
#include "views/panels/source_view.h"
#include "views/widgets/fixed_height_label.h"

namespace graft {

class CodePanel : public QWidget {
  Q_OBJECT

 public:
  enum Tab { Cpp, Cuda, Ptx, Sass, Python };

  explicit CodePanel(PanelContext& context);
  CodeText* loops() { return loops_; }
  CodeText* code(Tab tab);
  SourceView* python() { return python_; }
  NodeLegend* legend() { return legend_; }
  void showTab(Tab tab) { tabs_->setCurrentIndex(tab); }
  QString heading() const { return heading_->fullText(); }
  QString outcome() const { return outcome_->fullText(); }
  /// What the kernel takes of a GPU.
  QString usage() const { return usage_->fullText(); }
  QPushButton* editLoops() { return editLoops_; }
  QPushButton* editSource() { return editSource_; }
  QPushButton* keep() { return keep_; }
  QPushButton* discard() { return discard_; }
  bool isEditing() const { return loops_->isEditing() || texts_[Cpp]->isEditing(); }

 protected:
  void resizeEvent(QResizeEvent*) override;

 private:
  void choose(const QString& node);
  void refresh();
  void ask(const QString& form, CodeText& into);
  std::vector<CodeText*> allTexts() const;
  void askShown();
  void followSelection();
  void edit(CodeText& text);
  void verify();
  void tell(const EditOutcome& outcome);
  void showEditing();

  PanelContext& context_;
  Document& document_;
  FixedHeightLabel *heading_, *outcome_, *usage_;
  NodeLegend* legend_;
  QSplitter* parts_;
  CodeText* loops_;
  QTabBar* tabs_;
  QStackedWidget* pages_;
  CodeText* texts_[Python];
  SourceView* python_;
  QPushButton *editLoops_, *editSource_, *keep_, *discard_;
  bool isForGpu_ = false;                  ///< the plan that is shown
  QHash<const CodeText*, QString> shown_;  ///< the kernel and plan that each shows, so that none is asked for twice
};

PanelDescription codePanel();

}  // namespace graft
