#include "views/widgets/theme.h"

#include <QApplication>
#include <QFile>
#include <QFontDatabase>
#include <QFontInfo>
#include <QIconEngine>
#include <QPainter>
#include <QPalette>
#include <QStyleFactory>
#include <QSvgRenderer>
#include <map>
#include <optional>
#include <utility>

#include "views/widgets/qt_color.h"

// Resources of a static library are registered by hand; the macro wants to stand outside of namespaces.
static void registerResources() { Q_INIT_RESOURCE(graft); }

namespace graft {
namespace {

Palette current = palette(Theme::Light);
bool started = false;
bool systemIsDark = false;

}  // namespace

Theme systemTheme() {
  if (!started) systemIsDark = QApplication::palette().color(QPalette::Window).lightness() < 128;
  return systemIsDark ? Theme::Dark : Theme::Light;
}

Theme currentTheme() { return current.dark ? Theme::Dark : Theme::Light; }
const Palette& themePalette() { return current; }
PaletteScope::PaletteScope(Theme theme) : before_(current) { current = palette(theme); }
PaletteScope::~PaletteScope() { current = before_; }
QString css(Color c) { return QString::fromStdString(c.hex()); }

QFont monospace() {
  QFont font = QFontDatabase::systemFont(QFontDatabase::FixedFont);
  font.setPointSizeF(QApplication::font().pointSizeF());
  return font;
}

void applyTheme(Theme theme) {
  // Styling anew every widget that is there takes longer than making the window.
  static std::optional<Theme> applied;
  if (applied == theme) return;
  applied = theme;
  systemTheme();
  if (!started) {
    registerResources();
    // Where no desktop says which font, Inter reads better than the fallback.
    const QString family = QFontInfo(QApplication::font()).family();
    if (family.startsWith(QLatin1String("DejaVu")) && QFontDatabase::hasFamily(QStringLiteral("Inter"))) {
      QFont font(QStringLiteral("Inter"));
      font.setPointSizeF(std::max(9.0, QApplication::font().pointSizeF()));
      QApplication::setFont(font);
    }
  }
  started = true;
  current = palette(theme);
  const Palette& p = current;
  QApplication::setStyle(QStyleFactory::create(QStringLiteral("Fusion")));
  const Color window = p.window;
  const Color button = p.dark ? Color{50, 55, 64} : Color{250, 250, 251};
  const Color disabled = mix(window, p.text, 0.42);
  QPalette q;
  q.setColor(QPalette::Window, toQt(window));
  q.setColor(QPalette::WindowText, toQt(p.text));
  q.setColor(QPalette::Base, toQt(p.background));
  q.setColor(QPalette::AlternateBase, toQt(mix(p.background, p.text, 0.03)));
  q.setColor(QPalette::Text, toQt(p.text));
  q.setColor(QPalette::Button, toQt(button));
  q.setColor(QPalette::ButtonText, toQt(p.text));
  q.setColor(QPalette::ToolTipBase, toQt(p.dark ? Color{58, 64, 74} : Color{255, 255, 255}));
  q.setColor(QPalette::ToolTipText, toQt(p.text));
  q.setColor(QPalette::PlaceholderText, toQt(p.faint()));
  q.setColor(QPalette::Highlight, toQt(p.accent));
  q.setColor(QPalette::HighlightedText, toQt(p.dark ? Color{15, 18, 22} : Color{255, 255, 255}));
  q.setColor(QPalette::Link, toQt(p.accent));
  q.setColor(QPalette::LinkVisited, toQt(p.accent));
  q.setColor(QPalette::Mid, toQt(p.grid));
  q.setColor(QPalette::Light, toQt(mix(button, Color{255, 255, 255}, p.dark ? 0.08 : 0.6)));
  q.setColor(QPalette::Dark, toQt(mix(window, Color{0, 0, 0}, 0.25)));
  for (const auto role : {QPalette::WindowText, QPalette::Text, QPalette::ButtonText})
    q.setColor(QPalette::Disabled, role, toQt(disabled));
  QApplication::setPalette(q);
  const QString line = css(p.grid), text = css(p.text), dim = css(p.dim), base = css(p.background),
                hover = css(mix(window, p.text, 0.09)), accent = css(p.accent), head = css(window);
  qApp->setStyleSheet(
      QStringLiteral(
          "QMainWindow::separator{background:%1;width:1px;height:1px}"
          "QDockWidget{titlebar-close-icon:none;titlebar-normal-icon:none}"
          "QToolBar{border:0;border-bottom:1px solid %1;padding:4px 8px;spacing:4px}"
          "QToolButton{border:1px solid transparent;border-radius:5px;padding:4px 7px}"
          "QToolButton:hover{background:%2}QToolButton:checked{background:%2;border-color:%1}"
          "QToolButton[outlined=\"true\"]{border-color:%1}"
          "QToolButton#mainButton{background:%7;border-color:%7;color:%11}"
          "QToolButton#mainButton:hover{background:%12}QToolButton#mainButton:disabled{background:%1;border-color:%1;"
          "color:%8}"
          "QToolButton:focus,QPushButton:focus{border-color:%7;background:%9}QCheckBox:focus{color:%7}"
          "QStatusBar{border-top:1px solid %1}QStatusBar::item{border:0}"
          "QScrollArea{border:0}QTreeView,QListView,QTableView,QTextBrowser,QPlainTextEdit{border:1px solid "
          "transparent}"
          "QTreeView:focus,QListView:focus,QTableView:focus,QTextBrowser:focus,QPlainTextEdit:focus{border-color:%7}"
          "QTreeView::item,QListView::item{padding:3px 2px}"
          "QHeaderView::section{border:0;border-bottom:1px solid %1;padding:4px 6px;background:%6;color:%4}"
          // The style draws it over the heading or cuts that short: tables that sort say so in the heading's text.
          "QHeaderView::up-arrow,QHeaderView::down-arrow{width:0px;height:0px;image:none}"
          "QToolButton::menu-indicator{subcontrol-origin:padding;subcontrol-position:right center;width:9px}"
          "QToolButton[popupMode=\"2\"]{padding-right:16px}"
          "QAbstractScrollArea::corner{background:%5;border:0}"
          "QScrollBar{background:transparent;border:0}QScrollBar:vertical{width:11px}QScrollBar:horizontal{height:11px}"
          "QScrollBar::handle{background:%10;border-radius:3px;margin:2px}QScrollBar::handle:hover{background:%4}"
          "QScrollBar::handle:vertical{min-height:28px}QScrollBar::handle:horizontal{min-width:28px}"
          "QScrollBar::add-line,QScrollBar::sub-line{width:0;height:0}QScrollBar::add-page,QScrollBar::sub-page{"
          "background:transparent}"
          // No colour of its own: with one, Qt would draw the hint of an empty field in half of it.
          "QLineEdit{border:1px solid %1;border-radius:5px;padding:4px 7px;background:%5}"
          "QLineEdit:focus{border-color:%7}"
          "QComboBox{border:1px solid %1;border-radius:5px;padding:4px 7px;background:%5;color:%3}"
          "QComboBox:hover{background:%2}QComboBox:focus{border-color:%7}QComboBox:disabled{color:%8}"
          "QComboBox::drop-down{border:0;width:20px}QComboBox::down-arrow{width:12px;height:12px;"
          "image:url(:/icons/chevron.svg)}"
          "QPushButton{border:1px solid %1;border-radius:5px;padding:5px 12px}"
          "QPushButton:hover{background:%2}QPushButton:default{border-color:%7}"
          "QPushButton:checked{background:%9;border-color:%7}"
          "QPushButton:disabled{color:%8}"
          "QTabBar::tab{border:0;padding:6px 12px;color:%4}QTabBar::tab:selected{color:%3;border-bottom:2px solid %7}"
          "QTabWidget::pane{border:0;border-top:1px solid %1}"
          "QMenu{border:1px solid %1}QToolTip{border:1px solid "
          "%1;padding:4px}QDialogButtonBox{dialogbuttonbox-buttons-have-icons:0}"
          // Quiet, as in the drawing: the row is marked, its text stays as it is.
          "QTreeView,QListView,QTableView{selection-background-color:%9;selection-color:%3;outline:0}"
          "QDockWidget::title{padding:7px 12px 5px 12px;text-align:left}"
          "QCheckBox::indicator,QTreeView::indicator,QListView::indicator{width:13px;height:13px;border:1px solid "
          "%4;border-radius:3px;background:%5}"
          "QCheckBox::indicator:checked,QTreeView::indicator:checked,QListView::indicator:checked{background:%7;"
          "border-color:%7;image:url(:/icons/check.svg)}")
          .arg(line, hover, text, dim, base, head, accent, css(disabled), css(mix(p.background, p.accent, 0.22)),
               css(mix(p.background, p.text, 0.28)), css(p.dark ? Color{15, 18, 22} : Color{255, 255, 255}),
               css(mix(p.accent, p.text, 0.15))));
}

namespace {

/// An icon in the colours that the theme had when it was made, drawn at the sizes that are asked for.
class ThemedIcon : public QIconEngine {
 public:
  ThemedIcon(QByteArray svg, QByteArray normal, QByteArray disabled)
      : svg_(std::move(svg)), normal_(std::move(normal)), disabled_(std::move(disabled)) {}

  QIconEngine* clone() const override { return new ThemedIcon(*this); }
  void paint(QPainter* painter, const QRect& rect, QIcon::Mode mode, QIcon::State) override {
    QByteArray svg = svg_;
    svg.replace("currentColor", mode == QIcon::Disabled ? disabled_ : normal_);
    QSvgRenderer(svg).render(painter, rect);
  }
  QPixmap pixmap(const QSize& size, QIcon::Mode mode, QIcon::State state) override {
    const std::pair key{std::pair{size.width(), size.height()}, mode == QIcon::Disabled};
    QPixmap& known = drawn_[key];
    if (!known.isNull()) return known;
    known = QPixmap(size);
    known.fill(Qt::transparent);
    QPainter painter(&known);
    paint(&painter, QRect(QPoint(), size), mode, state);
    return known;
  }

 private:
  QByteArray svg_, normal_, disabled_;
  std::map<std::pair<std::pair<int, int>, bool>, QPixmap> drawn_;
};

}  // namespace

QIcon icon(const QString& name) {
  QFile file(QStringLiteral(":/icons/%1.svg").arg(name));
  if (!file.open(QIODevice::ReadOnly)) return {};
  const auto ink = [](Color color) { return QByteArray::fromStdString(color.hex()); };
  return QIcon(new ThemedIcon(file.readAll(), ink(current.text), ink(mix(current.background, current.text, 0.35))));
}

}  // namespace graft
