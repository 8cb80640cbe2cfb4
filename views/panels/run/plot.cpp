#include "views/panels/run/plot.h"

#include <QApplication>
#include <QBuffer>
#include <QClipboard>
#include <QContextMenuEvent>
#include <QFileDialog>
#include <QFileInfo>
#include <QKeyEvent>
#include <QMenu>
#include <QPainter>
#include <QSvgGenerator>
#include <QToolTip>
#include <algorithm>
#include <array>
#include <cmath>

#include "views/widgets/qt_color.h"
#include "views/widgets/theme.h"

namespace graft {

double roundStep(double raw) {
  const double magnitude = std::pow(10, std::floor(std::log10(raw)));
  return raw / magnitude < 1.5   ? magnitude
         : raw / magnitude < 3.5 ? 2 * magnitude
         : raw / magnitude < 7.5 ? 5 * magnitude
                                 : 10 * magnitude;
}

Plot::Plot(const QString& file, const QString& name, QWidget* parent) : QWidget(parent), file_(file) {
  setAccessibleName(name);
  setFocusPolicy(Qt::StrongFocus);  // Qt gives a place in the order of Tab to those alone that take the focus
  setToolTip(tr("Right click or the menu key: copy or save the picture. Arrow keys: read it"));
}

void Plot::stopsChanged() {
  setFocusPolicy(stopCount() > 0 ? Qt::StrongFocus : Qt::NoFocus);
  if (stop_ >= stopCount()) stop_ = -1;
  setAccessibleDescription(stop_ >= 0         ? stopText(stop_)
                           : stopCount() == 0 ? QString()
                                              : tr("%1 places: arrow keys read them").arg(stopCount()));
  update();
}

void Plot::setStop(int stop) {
  stop_ = stop >= 0 && stop < stopCount() ? stop : -1;
  update();
  if (stop_ < 0) return QToolTip::hideText();
  const QString text = stopText(stop_);
  setAccessibleDescription(text);
  const QRect at = stopRect(stop_).toAlignedRect().intersected(rect());
  QToolTip::showText(mapToGlobal(at.isEmpty() ? rect().center() : at.center()), text, this);
}

int Plot::stopBy(int key) const {
  const int last = stopCount() - 1;
  switch (key) {
    case Qt::Key_Left:
    case Qt::Key_Up:
      return std::max(0, stop_ - 1);
    case Qt::Key_Right:
    case Qt::Key_Down:
      return std::min(last, stop_ + 1);
    case Qt::Key_Home:
      return 0;
    case Qt::Key_End:
      return last;
    default:
      return stop_;
  }
}

void Plot::keyPressEvent(QKeyEvent* e) {
  static constexpr std::array ways = {Qt::Key_Left, Qt::Key_Right, Qt::Key_Up, Qt::Key_Down, Qt::Key_Home, Qt::Key_End};
  if (e->matches(QKeySequence::Copy)) return copy();
  if (stopCount() == 0 || e->modifiers() & (Qt::ControlModifier | Qt::AltModifier)) return QWidget::keyPressEvent(e);
  if (std::find(ways.begin(), ways.end(), e->key()) != ways.end()) return setStop(stopBy(e->key()));
  const bool isChoice = e->key() == Qt::Key_Return || e->key() == Qt::Key_Enter || e->key() == Qt::Key_Space;
  if (isChoice && stop_ >= 0) return chooseStop(stop_);
  if (e->key() == Qt::Key_Escape && stop_ >= 0) return setStop(-1);
  QWidget::keyPressEvent(e);
}

void Plot::focusInEvent(QFocusEvent* e) {
  QWidget::focusInEvent(e);
  update();
}

void Plot::focusOutEvent(QFocusEvent* e) {
  QWidget::focusOutEvent(e);
  QToolTip::hideText();
  update();
}

void Plot::paintEvent(QPaintEvent*) {
  QPainter p(this);
  p.setRenderHint(QPainter::Antialiasing);
  draw(p);
  if (!hasFocus()) return;
  p.setBrush(Qt::NoBrush);
  p.setPen(QPen(toQt(themePalette().accent), 1.5));
  p.drawRoundedRect(QRectF(rect()).adjusted(1, 1, -1, -1), 4, 4);
  if (stop_ < 0) return;
  p.setPen(QPen(toQt(themePalette().text), 1.5));
  p.drawRoundedRect(stopRect(stop_).intersected(QRectF(rect()).adjusted(2, 2, -2, -2)), 3, 3);
}

void Plot::copy() {
  QPixmap picture(size() * devicePixelRatio());
  picture.setDevicePixelRatio(devicePixelRatio());
  picture.fill(toQt(themePalette().background));
  QPainter p(&picture);
  p.setRenderHint(QPainter::Antialiasing);
  draw(p);
  p.end();
  QApplication::clipboard()->setPixmap(picture);
}

bool Plot::save(const QString& path) {
  if (path.endsWith(QLatin1String(".svg"), Qt::CaseInsensitive)) {
    QSvgGenerator svg;
    svg.setFileName(path);
    svg.setSize(size());
    svg.setViewBox(rect());
    svg.setTitle(file_);
    QPainter p;
    if (!p.begin(&svg)) return false;
    p.fillRect(rect(), toQt(themePalette().background));
    draw(p);
    return p.end();
  }
  constexpr int scale = 2;
  QImage image(size() * scale, QImage::Format_RGB32);
  image.setDevicePixelRatio(scale);
  image.fill(toQt(themePalette().background));
  QPainter p(&image);
  p.setRenderHint(QPainter::Antialiasing);
  draw(p);
  p.end();
  return image.save(path);
}

QByteArray Plot::svg(QSize wanted) {
  const PaletteScope light(Theme::Light);
  const QSize before = size();
  resize(wanted);  // plots are drawn to their widget's size
  QBuffer bytes;
  QSvgGenerator svg;
  svg.setOutputDevice(&bytes);
  svg.setSize(size());
  svg.setViewBox(rect());
  svg.setTitle(file_);
  QPainter p(&svg);
  draw(p);
  p.end();
  resize(before);
  return bytes.data();
}

void Plot::contextMenuEvent(QContextMenuEvent* e) {
  QMenu menu;
  menu.addAction(tr("Copy picture"), this, &Plot::copy);
  menu.addAction(tr("Save picture…"), this, [this] {
    QString path = QFileDialog::getSaveFileName(this, tr("Save picture"), file_ + QStringLiteral(".svg"),
                                                tr("Pictures (*.svg *.png)"));
    if (!path.isEmpty() && QFileInfo(path).suffix().isEmpty()) path += QStringLiteral(".svg");
    if (!path.isEmpty() && !save(path))
      QToolTip::showText(QCursor::pos(), tr("%1 could not be written").arg(path), this);
  });
  menu.exec(e->globalPos());
}

}  // namespace graft
