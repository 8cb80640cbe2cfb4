#include "views/widgets/theme.h"

#include <QApplication>
#include <QFile>
#include <QFontDatabase>
#include <QFontInfo>
#include <QIconEngine>
#include <QPainter>
#include <QPalette>
#include <QSvgRenderer>
#include <map>
#include <optional>
#include <utility>

#include "views/widgets/qt_color.h"
#include "views/widgets/theme_style.h"

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
  QApplication::setStyle(new ThemeStyle);
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
  // Quiet, as in the drawing: the row is marked, its text stays as it is.
  q.setColor(QPalette::Highlight, toQt(p.chosen()));
  q.setColor(QPalette::HighlightedText, toQt(p.text));
  QApplication::setPalette(q, "QAbstractItemView");
}

void tint(QWidget& widget, Color text) {
  QPalette own;
  own.setColor(QPalette::WindowText, toQt(text));
  own.setColor(QPalette::Text, toQt(text));  // on the ground of a list
  if (!widget.testAttribute(Qt::WA_SetPalette) || widget.palette().color(QPalette::WindowText) != toQt(text))
    widget.setPalette(own);
}

void setCardColors(QWidget& card, const Palette& colors) {
  QPalette own;
  own.setColor(QPalette::Window, toQt(colors.surface));
  own.setColor(QPalette::Mid, toQt(mix(colors.surface, colors.dim, 0.5)));
  own.setColor(QPalette::WindowText, toQt(colors.text));
  card.setPalette(own);
}

void setGround(QWidget& widget, Color ground, Color frame) {
  QPalette own;
  own.setColor(QPalette::Window, toQt(ground));
  own.setColor(QPalette::Mid, toQt(frame));
  widget.setPalette(own);
}

void paintCard(QWidget& card, double radius) {
  QPainter painter(&card);
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(card.palette().color(QPalette::Mid));
  painter.setBrush(card.palette().color(QPalette::Window));
  painter.drawRoundedRect(QRectF(card.rect()).adjusted(0.5, 0.5, -0.5, -0.5), radius, radius);
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
