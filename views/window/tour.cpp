#include "views/window/tour.h"

#include <QUrl>
#include <QVBoxLayout>

#include "views/widgets/theme.h"

namespace graft {
namespace {

struct Step {
  QString title, text;
};

/// A link that triggers the window's action of that name.
QString doing(const char* action, const QString& text) {
  return QStringLiteral("<a href=\"%1\" style=\"color:%2\">%3</a>")
      .arg(QString::fromLatin1(action), css(themePalette().accent), text);
}

QList<Step> steps() {
  const auto tr = [](const char* text) { return Tour::tr(text); };
  return {
      {tr("Open a model"),
       doing("open", tr("Open a model…")) + tr(" or click a sample on the first page. Modules are boxes: a double "
                                               "click opens one where it stands, the wheel zooms to the pointer, "
                                               "dragging pans, <code>Ctrl+0</code> shows all.")},
      {tr("Look at a node"),
       tr("Click one: its inputs and outputs light up, the inspector tells what it does. <i>source</i> there shows the "
          "Python it comes from. <code>i</code> and <code>o</code> go to an input and an output, with "
          "<code>Shift</code> to the next one; <code>/</code> or ") +
           doing("find", tr("Find")) + tr(" looks for names, operators, shapes.")},
      {tr("Write a rule"),
       tr("In ") + doing("rewrite", tr("Rewrite")) +
           tr(" (<code>Ctrl+2</code>), begin with the example above the empty editor, or take a rule from ") +
           doing("library", tr("the library")) + tr(". Matches light up as you type; <code>F3</code> visits them.")},
      {tr("Ask why not"),
       doing("whyNot", tr("Why not?")) + tr(" (<code>Ctrl+Y</code>) lists where the rule almost matches, with "
                                            "the reason and, where there is one, the change that helps.")},
      {tr("Preview and apply"),
       doing("preview", tr("Preview")) + tr(" draws the result beside the model, ") + doing("apply", tr("Apply")) +
           tr(" makes it (<code>Ctrl+Return</code>). Each rewrite is run beside what it replaces before it stays. The "
              "history lists every step; <code>Ctrl+Z</code> takes back one, <code>Ctrl+Alt+Z</code> while you are in "
              "the editor, too.")},
      {tr("Measure"), doing("run", tr("Run both")) +
                          tr(" (<code>F5</code>): the model as opened and as it is now, on the same inputs. "
                             "One line says what came of it; <i>Colour: time</i> shows it on the nodes.")},
      {tr("Take it with you"), tr("Export ") + doing("exportModel", tr("the faster model")) + tr(", ") +
                                   doing("exportDrawing", tr("the drawing")) + tr(" or ") +
                                   doing("exportReport", tr("a report")) + tr(".")},
  };
}

}  // namespace

Tour::Tour(Document& document, QWidget* parent) : QDialog(parent, Qt::Tool), document_(document) {
  setWindowTitle(tr("Ten-minute tour"));
  setObjectName(QStringLiteral("tour"));
  text_ = new QTextBrowser(this);
  text_->setAccessibleName(tr("Tour"));
  text_->setOpenLinks(false);
  text_->setFrameShape(QFrame::NoFrame);
  text_->setVerticalScrollBarPolicy(Qt::ScrollBarAlwaysOff);  // the window is as high as its text
  text_->document()->setDocumentMargin(16);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->addWidget(text_);
  resize(360, 380);
  connect(text_, &QTextBrowser::anchorClicked, this, [this](const QUrl& url) {
    bool isStep = false;
    const int step = url.fragment().toInt(&isStep);
    if (isStep)
      goTo(step);
    else
      Q_EMIT asked(url.toString());
  });
  for (auto signal : {&Document::opened, &Document::selectionChanged, &Document::matchesChanged,
                      &Document::nearMissesChanged, &Document::stepsChanged, &Document::runChanged})
    connect(&document_, signal, this, &Tour::note);
  connect(&document_, &Document::exported, this, &Tour::noteWritten);
  refresh();
  note();
}

int Tour::count() { return static_cast<int>(steps().size()); }

int Tour::current() const {
  if (chosen_ > 0) return chosen_;
  for (int i = 1; i <= count(); ++i)
    if (!done_.contains(i)) return i;
  return count();
}

void Tour::goTo(int step) {
  chosen_ = step;
  refresh();
}

void Tour::noteWritten() {
  done_.insert(count());
  refresh();
}

void Tour::note() {
  const QSet<int> before = done_;
  const QString selected = document_.selection().value(0);
  const bool isNode = document_.graph() && document_.graph()->findNode(selected.toStdString());
  if (document_.isOpen()) done_.insert(1);
  if (isNode) done_.insert(2);
  for (const RuleInfo& r : document_.rules())
    if (r.matched && !r.matches.empty()) done_.insert(3);
  if (!document_.nearMissesOf().isEmpty()) done_.insert(4);
  if (document_.position() > 0) done_.insert(5);
  if (!document_.lastRun().isEmpty()) done_.insert(6);
  if (done_ == before) return;
  if (done_.contains(chosen_) && !before.contains(chosen_)) chosen_ = 0;
  refresh();
}

void Tour::refresh() {
  const QString dim = css(themePalette().dim), good = css(themePalette().change(Change::Added)),
                plain = css(themePalette().text);
  QString html = QStringLiteral("<p style=\"margin:0;font-size:large\"><b>%1</b></p><table cellspacing=\"0\">")
                     .arg(tr("From a model to a faster one"));
  const QList<Step> all = steps();
  for (int i = 0; i < all.size(); ++i) {
    const bool isDone = done_.contains(i + 1), isHere = current() == i + 1;
    const QString title = isHere ? QStringLiteral("<b>%1</b><br>%2").arg(all[i].title, all[i].text)
                                 : QStringLiteral("<a href=\"#%1\" style=\"color:%2;text-decoration:none\">%3</a>")
                                       .arg(i + 1)
                                       .arg(isDone ? dim : plain, all[i].title);
    html += QStringLiteral(
                "<tr><td width=\"22\" style=\"color:%1;padding-bottom:%2px\">%3</td>"
                "<td style=\"padding-bottom:%2px\">%4</td></tr>")
                .arg(isDone ? good : dim)
                .arg(isHere ? 10 : 6)
                .arg(isDone ? QStringLiteral("<b>✓</b>") : QString::number(i + 1), title)
                .arg(i == 0 ? 10 : 0);  // Qt leaves out the margin between a paragraph and a table
  }
  html += QStringLiteral("</table><p style=\"color:%1;margin:6px 0 0 0\">%2</p>")
              .arg(dim, tr("Everything is in the ") + doing("palette", tr("command palette")) +
                            tr(", <code>Ctrl+Shift+P</code>."));
  text_->setHtml(html);
  text_->document()->setTextWidth(width());
  resize(width(), static_cast<int>(text_->document()->size().height()) + 4);
  settle();
}

void Tour::settle() {
  if (!place_ || isMoved_) return;
  asked_ = place_(size());
  sinceAsked_.start();
  move(asked_);
}

/// What the window manager makes of a place that was asked for is no wish of the user's.
void Tour::moveEvent(QMoveEvent* e) {
  QDialog::moveEvent(e);
  constexpr int settled = 600, near = 48;
  if (sinceAsked_.isValid() && sinceAsked_.elapsed() > settled && (pos() - asked_).manhattanLength() > near)
    isMoved_ = true;
}

}  // namespace graft
