// What a panel of the window is: a widget, and a description of where and when it shows. The window makes its docks,
// the View menu and the arrangements from the list in panels.h. It knows no panel by name.
//
// A panel talks to the rest through its PanelContext: it reads the document and asks for what only the window can do.
//
//   PanelDescription explorerPanel() {
//     return {.name = "explorer", .title = Explorer::tr("Modules"), .arrangements = {Arrangement::Explore},
//             .make = [](PanelContext& context) { return new Explorer(context); }};
//   }
#pragma once

#include <QKeySequence>
#include <QMap>
#include <QObject>
#include <QSize>
#include <QString>
#include <functional>

#include "views/document/captured/capture.h"
#include "views/document/captured/training_cut.h"
#include "views/document/document.h"

namespace graft {

/// What one is doing: looking at a model, rewriting it, measuring it, looking at what is compiled of it. Each has
/// panels of its own.
enum class Arrangement { Explore, Rewrite, Measure, Compile };
inline constexpr Arrangement allArrangements[] = {Arrangement::Explore, Arrangement::Rewrite, Arrangement::Measure,
                                                  Arrangement::Compile};

/// What panels share. The window owns it, and answers what panels ask. Settings are QSettings, as everywhere.
class PanelContext : public QObject {
  Q_OBJECT

 public:
  PanelContext(Document& document, EngineClient& engine, QObject* parent)
      : QObject(parent), document_(document), engine_(engine), capture_(document), cut_(document) {}
  Document& document() { return document_; }
  /// The capture that the open graph is of, and the cut of a training step.
  Capture& capture() { return capture_; }
  TrainingCut& cut() { return cut_; }
  EngineClient& engine() { return engine_; }

  /// Lights a node of the current rule's pattern, and on the canvas the nodes that it matches; "" lights nothing.
  void lightPattern(const QString& patternNode);
  /// Lights the pattern node that matches this node of the model; none where no match holds it.
  void lightPatternOf(const QString& node);

 Q_SIGNALS:
  // What a panel asks of the window
  void nodeAsked(const QString& key);              ///< open what hides it, select it, bring it into view
  void matchAsked(const QStringList& nodes);       ///< the same with all nodes of a match
  void nodesLit(const QStringList& nodes);         ///< light these on the canvas
  void canvasAsked();                              ///< the keyboard goes to the canvas
  void rulesAsked(const QString& file, int line);  ///< open a rule file, at a line where that is above 0
  void arrangementAsked(Arrangement arrangement);
  void actionAsked(const QString& name);  ///< the window's action of that object name
  void panelAsked(const QString& name);
  void graphAsked(const QString& name);  ///< open another graph of the capture
  void failed(const QString& what, const QString& why);

  // What panels tell each other
  void patternLit(const QString& patternNode);
  void ruleTaken(const QString& file, const QString& rule);  ///< from the library, for the rules being edited

  // What the window tells panels
  void themeChanged();
  /// The user's own numbers of nodes, by name; none: there are none.
  void numbersChanged(const QString& title, const QMap<QString, double>& values);

 private:
  Document& document_;
  EngineClient& engine_;
  Capture capture_;
  TrainingCut cut_;
};

struct PanelDescription {
  QString name;             ///< of its dock, also in saved layouts: it never changes
  QString title;            ///< with "&" before the letter that chooses it in a menu
  QString help;             ///< one sentence for tooltips: what it shows, or what one does with it
  QKeySequence shortcut{};  ///< of an action that shows and hides it; it comes with its arrangement
  Qt::DockWidgetArea area = Qt::LeftDockWidgetArea;
  QList<Arrangement> arrangements;  ///< where it shows
  bool isOnRequest = false;         ///< it shows only when it is asked for
  bool needsModel = true;           ///< without a model it would be empty, and is hidden
  QSize size{};                     ///< at first; 0: as the layout decides
  QString tabbedWith{};             ///< the panel that it shares a place with
  QString borrowsFrom{};            ///< the panel below that lends it height while it shows
  std::function<QWidget*(PanelContext&)> make;
};

}  // namespace graft
