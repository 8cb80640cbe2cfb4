#include "views/window/welcome.h"

#include <QCoreApplication>
#include <QDragEnterEvent>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QLabel>
#include <QMimeData>
#include <QPushButton>

#include "views/document/model_files.h"
#include "views/panels/run/run_inputs.h"
#include "views/widgets/theme.h"

namespace graft {

WelcomePage::WelcomePage(QWidget* parent) : QWidget(parent) {
  setAcceptDrops(true);
  setBackgroundRole(QPalette::Base);
  setAutoFillBackground(true);
  auto* logo = new QLabel(this);
  logo->setPixmap(icon(QStringLiteral("graft")).pixmap(56, 56));
  auto* title = new QLabel(tr("Graft"), this);
  QFont big = font();
  big.setPointSizeF(big.pointSizeF() * 2.4);
  big.setWeight(QFont::DemiBold);
  title->setFont(big);
  auto* line = new QLabel(tr("See inside a PyTorch model and make it faster."), this);
  auto* open = new QPushButton(icon(QStringLiteral("open")), tr("Open a model…"), this);
  open->setDefault(true);
  setFocusProxy(open);
  auto* rules = new QPushButton(icon(QStringLiteral("rewrite")), tr("Open rules…"), this);
  auto* tour = new QPushButton(tr("Ten-minute tour"), this);
  connect(open, &QPushButton::clicked, this, &WelcomePage::openAsked);
  connect(rules, &QPushButton::clicked, this, &WelcomePage::rulesAsked);
  connect(tour, &QPushButton::clicked, this, &WelcomePage::tourAsked);
  auto* names = new QVBoxLayout;
  names->addWidget(title);
  names->addWidget(line);
  names->setSpacing(0);
  auto* head = new QHBoxLayout;
  head->addWidget(logo);
  head->addSpacing(16);
  head->addLayout(names);
  head->addStretch();
  auto* buttons = new QHBoxLayout;
  for (QPushButton* b : {open, rules, tour}) {
    b->setMinimumHeight(open->sizeHint().height());  // those with icons are taller
    b->setAutoDefault(true);                         // Return presses the one that has the keyboard
    buttons->addWidget(b);
  }
  buttons->addStretch();
  lists_ = new QHBoxLayout;
  lists_->setSpacing(48);
  auto* drop = new QLabel(tr("Drop a model file anywhere in the window: %1.").arg(modelKindsText()), this);
  auto* inner = new QVBoxLayout;
  inner->addStretch(2);
  inner->addLayout(head);
  inner->addSpacing(24);
  inner->addLayout(buttons);
  inner->addSpacing(32);
  inner->addLayout(lists_);
  inner->addSpacing(24);
  inner->addWidget(drop);
  inner->addStretch(3);
  auto* outer = new QHBoxLayout(this);
  outer->addStretch();
  outer->addLayout(inner);
  outer->addStretch();
}

QWidget* WelcomePage::section(const QString& title, const QStringList& paths, const QString& empty, bool showFolder) {
  auto* widget = new QWidget;
  auto* column = new QVBoxLayout(widget);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(6);
  auto* head = new QLabel(title);
  QFont bold = font();
  bold.setWeight(QFont::DemiBold);
  head->setFont(bold);
  column->addWidget(head);
  if (paths.isEmpty()) {
    auto* none = new QLabel(empty);
    none->setWordWrap(true);
    column->addWidget(none);
  }
  for (const QString& path : paths) {
    const QFileInfo file(path);
    auto* label = new QLabel(
        QStringLiteral("<a style=\"text-decoration:none;color:%1\" href=\"f\">%2</a>&nbsp;&nbsp;<span "
                       "style=\"color:%3\">%4</span>")
            .arg(css(themePalette().accent), file.fileName().toHtmlEscaped(), css(themePalette().dim),
                 showFolder ? fontMetrics().elidedText(homeAsTilde(file.path()), Qt::ElideMiddle, 260).toHtmlEscaped()
                            : QString()));
    label->setToolTip(path);
    connect(label, &QLabel::linkActivated, this, [this, path] { Q_EMIT fileChosen(path); });
    column->addWidget(label);
  }
  column->addStretch();
  widget->setMinimumWidth(300);
  return widget;
}

void WelcomePage::setFiles(const QStringList& recent, const QStringList& samples) {
  while (QLayoutItem* item = lists_->takeAt(0)) {
    delete item->widget();
    delete item;
  }
  lists_->addWidget(section(tr("Recent"), recent.mid(0, 8), tr("Models that you open are listed here."), true));
  // Where it was built, one command makes a sample.
  const bool isBuild = QFileInfo::exists(QCoreApplication::applicationDirPath() + QStringLiteral("/../CMakeCache.txt"));
  const QString none = isBuild
                           ? tr("“./dev demo” exports MiniLM, a real sentence encoder.")
                           : tr("None is installed. torch.jit.save and torch.export.save write models of your own.");
  lists_->addWidget(section(tr("Samples"), samples.mid(0, 8), none, false));
}

void WelcomePage::dragEnterEvent(QDragEnterEvent* e) {
  if (e->mimeData()->hasUrls()) e->acceptProposedAction();
}

void WelcomePage::dropEvent(QDropEvent* e) {
  for (const QUrl& url : e->mimeData()->urls())
    if (url.isLocalFile()) Q_EMIT fileChosen(url.toLocalFile());
}

}  // namespace graft
