// The menu Compile: kernels of the plan, what is wanted otherwise, and how the canvas shows them.
#include <QFileDialog>
#include <QMenuBar>

#include "views/document/compile/compilation.h"
#include "views/document/run_figures.h"
#include "views/panels/compile/kernels_panel.h"
#include "views/window/actions.h"
#include "views/window/compile/compile_view.h"
#include "views/window/main_window.h"

namespace graft {
namespace {

const char* const planFilter = QT_TRANSLATE_NOOP("Actions", "Plans of kernels (*.json);;All files (*)");

}  // namespace

void Actions::makeCompileMenu() {
  QMenu* menu = window_.menuBar()->addMenu(tr("&Compile"));
  Compilation& compilation = window_.document().compilation();
  // Whatever is done to kernels is seen.
  const auto show = [this] {
    if (window_.docks().arrangement() != Arrangement::Compile) window_.arrange(Arrangement::Compile);
  };
  add(menu, {"measureKernels", tr("&Measure kernels"), {}, "play"}, [show, &compilation] {
    show();
    compilation.measure();
  });
  QAction* tries = add(menu, {"trySchedules", tr("&Try schedules")}, [show, &compilation] {
    show();
    compilation.trySchedules();
  });
  tries->setToolTip(tr("Measures up to five other schedules of each kernel's loops, too"));
  add(menu, {"applyKernels", tr("&Put kernels in place"), {}, "apply"}, [show, &compilation] {
    show();
    compilation.apply();
  });
  menu->addSeparator();
  QAction* byKernels = add(menu, {"byKernels", tr("Draw by &kernels"), tr("Ctrl+K")}, [] {});
  byKernels->setCheckable(true);
  byKernels->setToolTip(tr("What one kernel computes is one box, and edges are as wide as what they carry is large"));
  connect(byKernels, &QAction::triggered, this, [this, show] {
    show();
    window_.compileView().switchGrouping();
  });
  QAction* forGpu = add(menu, {"planForGpu", tr("Plan for a &GPU")}, [] {});
  forGpu->setCheckable(true);
  forGpu->setToolTip(
      tr("Groups the operators as for a model on a GPU, with what each kernel takes of it. Nothing runs: "
         "it needs no GPU"));
  connect(forGpu, &QAction::triggered, this, [show, &compilation](bool on) {
    show();
    compilation.setForGpu(on);
  });
  add(menu, {"comparePlans", tr("&Compare with the plan before")}, [this, show] {
    show();
    window_.compileView().comparePlans();
  });
  QMenu* others = menu->addMenu(tr("Compare with another p&lan"));
  others->setObjectName(QStringLiteral("otherPlans"));
  connect(others, &QMenu::aboutToShow, this, [this, show, others, &compilation] {
    others->clear();
    for (const Compilation::OtherPlan& plan : compilation.otherPlans()) {
      QString text = plan.title;
      if (plan.kernels)
        text += tr(" · %1").arg(counted(*plan.kernels, tr("generated kernel"), tr("generated kernels")));
      others->addAction(text, this, [this, show, step = plan.step] {
        show();
        window_.compileView().comparePlans(step);
      });
    }
  });
  menu->addSeparator();
  add(menu, {"fuseSelection", tr("&Fuse the selection")}, [this, show] {
    show();
    window_.compileView().fuseSelection();
  });
  add(menu, {"separateSelection", tr("Keep the selection &apart")}, [this, show] {
    show();
    window_.compileView().separateSelection();
  });
  QAction* undo = add(menu, {"undoPlan", tr("&Undo"), {}, "undo"}, [&compilation] { compilation.undo(); });
  QAction* redo = add(menu, {"redoPlan", tr("&Redo"), {}, "redo"}, [&compilation] { compilation.redo(); });
  const auto refresh = [&compilation, undo, redo, forGpu, others] {
    others->setEnabled(!compilation.otherPlans().empty());
    forGpu->setChecked(compilation.isForGpu());
    undo->setEnabled(compilation.canUndo());
    redo->setEnabled(compilation.canRedo());
    undo->setText(compilation.canUndo() ? tr("&Undo in the plan: %1").arg(compilation.undoLabel())
                                        : tr("&Undo in the plan"));
    redo->setText(compilation.canRedo() ? tr("&Redo in the plan: %1").arg(compilation.redoLabel())
                                        : tr("&Redo in the plan"));
  };
  connect(&compilation, &Compilation::changed, this, refresh);
  connect(&window_.document(), &Document::opened, this, refresh);
  refresh();
  menu->addSeparator();
  add(menu, {"openPlan", tr("&Open plan…"), {}, "open"}, [this, show, &compilation] {
    const QString path = QFileDialog::getOpenFileName(
        &window_, tr("Open plan"), window_.files().besideModel(QStringLiteral("_fusion.json")), tr(planFilter));
    if (path.isEmpty()) return;
    show();
    compilation.loadFrom(path);
  });
  add(menu, {"savePlan", tr("&Save plan…"), {}, "save"}, [this, &compilation] {
    const QString path = QFileDialog::getSaveFileName(
        &window_, tr("Save plan"), window_.files().besideModel(QStringLiteral("_fusion.json")), tr(planFilter));
    if (!path.isEmpty()) compilation.saveTo(path);
  });
}

}  // namespace graft
