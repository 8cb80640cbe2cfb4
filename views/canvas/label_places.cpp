#include "views/canvas/label_places.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>

#include "views/document/graph_decode.h"
#include "views/layout/taken.h"

namespace graft {
namespace {

using M = Metrics;
using Kind = PlacedLabel::Kind;

/// Words of one line may be higher than their box, and stand out of its ends.
constexpr double wordsHeight = 12, overhang = 3;

QRectF withWords(const QRectF& r) {
  if (r.height() > wordsHeight) return r;
  return {r.left() - overhang, r.center().y() - wordsHeight / 2, r.width() + 2 * overhang, wordsHeight};
}

class Placer {
 public:
  Placer(const Scene& scene, double scale, std::vector<PlacedLabel>& labels, std::unordered_map<int, double>& wordsEnd)
      : scene_(scene),
        scale_(scale),
        names_(SmallText::ofSize(SmallText::pixelsAt(M::nameSize, scale), QFont::DemiBold)),
        counts_(SmallText::ofSize(SmallText::pixelsAt(M::detailSize, scale), QFont::Normal)),
        labels_(labels),
        wordsEnd_(wordsEnd) {}

  void namesAndCounts() {
    const auto& boxes = scene_.view.boxes;
    std::vector<int> open;
    for (size_t i = 0; i < boxes.size(); ++i)
      if (boxes[i].open) open.push_back(static_cast<int>(i));
    std::stable_sort(open.begin(), open.end(), [&](int a, int b) {  // outer ones first
      return scene_.depth[static_cast<size_t>(a)] < scene_.depth[static_cast<size_t>(b)];
    });
    for (const int box : open) ofContainer(box);
    for (size_t i = 0; i < boxes.size(); ++i)
      if (!boxes[i].open && boxes[i].repeat > 1) countOf(static_cast<int>(i));
  }

  /// Where most boxes have no words: a name here and there, beside its box. Of very many boxes in one frame, where
  /// there is nothing but boxes, it stands over some.
  void landmarks(const Spellings& spellings) {
    constexpr double cellWidth = 100, cellHeight = 34, mostWithWords = 0.5;
    constexpr size_t crowd = 200, longest = 18, mostTried = 6;
    const auto& boxes = scene_.view.boxes;
    std::unordered_map<std::string_view, int> howMany;
    std::vector<int> wordless;
    size_t closed = 0;
    for (size_t i = 0; i < boxes.size(); ++i) {
      if (boxes[i].open) continue;
      ++closed;
      ++howMany[boxes[i].title];
      if (!hasOwnWords(static_cast<int>(i))) wordless.push_back(static_cast<int>(i));
    }
    if (static_cast<double>(wordless.size()) < (1 - mostWithWords) * static_cast<double>(closed)) return;
    std::map<std::pair<int, int>, std::vector<int>> cells;  // by row and column
    const auto tellsMore = [&](int a, int b) {
      const Box &x = boxes[static_cast<size_t>(a)], &y = boxes[static_cast<size_t>(b)];
      if (rankOf(x.kind) != rankOf(y.kind)) return rankOf(x.kind) > rankOf(y.kind);
      if (howMany[x.title] != howMany[y.title]) return howMany[x.title] < howMany[y.title];
      return a < b;
    };
    for (const int box : wordless) {
      const QPointF at = shown(box).center();
      const std::pair cell{static_cast<int>(at.y() / cellHeight), static_cast<int>(at.x() / cellWidth)};
      cells[cell].push_back(box);
    }
    const double line = names_.font().pixelSize() + 3;
    const auto place = [&](int box, bool isFirst) {
      const Box& b = boxes[static_cast<size_t>(box)];
      const bool isByName = tellsMoreThanTitle(b) && b.name.size() <= longest;
      const QString text =
          toQt(isByName ? std::string_view(b.name) : spelled(b.title, formsOf(b.title), spellings.of(b.title)));
      const QRectF r = shown(box);
      const QSizeF size(names_.width(text) + 4, line);
      const double middle = r.center().y() - line / 2;
      const std::array<Candidate, 4> candidates{{{{r.right() + 2, middle}, true},
                                                 {{r.left() - 2 - size.width(), middle}, true},
                                                 {{r.center().x() - size.width() / 2, r.top() - 1 - line}, true},
                                                 {{r.center().x() - size.width() / 2, r.bottom() + 1}, true}}};
      if (const auto at = firstFree(candidates, size, box)) {
        add(Kind::Landmark, box, *at, text);
        return true;
      }
      if (!isFirst) return false;
      const auto& around = b.parent < 0 ? scene_.view.roots : boxes[static_cast<size_t>(b.parent)].children;
      const double top = std::max(0.0, middle), left = std::max(0.0, r.center().x() - size.width() / 2);
      if (around.size() < crowd || !taken_.isFree({left - line, top - line, size.width() + 2 * line, 3 * line}))
        return false;
      add(Kind::Landmark, box, {{left, top}, size}, text);
      return true;
    };
    for (auto& [cell, inside] : cells) {  // the first of them that has room
      const size_t tried = std::min(mostTried, inside.size());
      std::partial_sort(inside.begin(), inside.begin() + static_cast<ptrdiff_t>(tried), inside.end(), tellsMore);
      for (size_t i = 0; i < tried && !place(inside[i], i == 0); ++i) {
      }
    }
  }

 private:
  /// Where a label may stand. One that is strict stays off the frames of other modules, too, and in the module around
  /// its own. One on a map may cover boxes of its own module that have no words.
  struct Candidate {
    QPointF at;
    bool isStrict = false;
    bool isOnMap = false;
  };

  bool hasOwnWords(int box) const {
    if (has_.empty()) has_.assign(scene_.view.boxes.size(), -1);
    signed char& known = has_[static_cast<size_t>(box)];
    if (known < 0) known = hasWords(scene_, box, scale_) ? 1 : 0;
    return known > 0;
  }

  bool isClosed(int box) const { return !scene_.view.boxes[static_cast<size_t>(box)].open; }

  QRectF shown(int box) const {
    const QRectF r = scene_.rect(box);
    return {r.topLeft() * scale_, r.size() * scale_};
  }

  bool isAround(int outer, int box) const {
    while (box >= 0 && box != outer) box = scene_.view.boxes[static_cast<size_t>(box)].parent;
    return box == outer;
  }

  bool isInReach(const QRectF& r, int own) const {
    int around = scene_.view.boxes[static_cast<size_t>(own)].parent;
    if (around >= 0) around = scene_.view.boxes[static_cast<size_t>(around)].parent;
    return around < 0 ? QRectF({}, scene_.bounds().size() * scale_).contains(r) : shown(around).contains(r);
  }

  bool isFree(const QRectF& r, int own, const Candidate& c) const {
    constexpr double words = 6;
    if (r.left() < 0 || r.right() > scene_.bounds().width() * scale_) return false;
    const QRectF around(r.left() / scale_, (r.top() - words) / scale_, r.width() / scale_,
                        (r.height() + 2 * words) / scale_);
    if (c.isStrict && !isInReach(r, own)) return false;
    const bool hits = scene_.index.any(scene_.layout.boxes, around, [&](int box) {
      if (box == own || (c.isOnMap && isAround(own, box) && !(isClosed(box) && hasOwnWords(box)))) return false;
      if (isClosed(box)) return (hasLine(scene_, box, scale_) ? withWords(shown(box)) : shown(box)).intersects(r);
      return c.isStrict && shown(box).intersects(r) && !isAround(box, own);
    });
    return !hits && taken_.isFree({r.x(), r.y(), r.width(), r.height()});
  }

  template <size_t N>
  std::optional<QRectF> firstFree(const std::array<Candidate, N>& candidates, QSizeF size, int own) const {
    for (const Candidate& c : candidates)
      if (const QRectF r(c.at, size); isFree(r, own, c)) return r;
    return std::nullopt;
  }

  void add(Kind kind, int box, const QRectF& at, const QString& text) {
    taken_.add({at.x(), at.y(), at.width(), at.height()});
    labels_.push_back({kind, box, at, text});
  }

  /// Of a name that is cut, what tells it from its neighbours' must not be missing.
  static QString withNumber(const QString& whole, const QString& fitted) {
    const auto isDigit = [](QChar c) { return c.isDigit(); };
    if (fitted == whole) return fitted;
    const auto kept = fitted.size() - (fitted.endsWith(QChar(0x2026)) ? 1 : 0);
    return std::any_of(whole.begin() + kept, whole.end(), isDigit) ? QString() : fitted;
  }

  /// Of "layer.12", "12".
  static QString numberOf(const QString& title) {
    const QString last = title.section(QLatin1Char('.'), -1);
    const bool isNumber = std::all_of(last.begin(), last.end(), [](QChar c) { return c.isDigit(); });
    return isNumber && last.size() < title.size() ? last : QString();
  }

  void ofContainer(int box) {
    constexpr double lowest = 12, gap = 4, wide = 64, mostOnMap = 0.16;
    constexpr size_t many = 12;
    const Box& b = scene_.view.boxes[static_cast<size_t>(box)];
    const QRectF r = shown(box);
    if (r.height() < lowest) return;
    const double line = names_.font().pixelSize() + 4;
    // As far up as it needs to be to leave the first boxes below the header alone: over the border, like a legend's.
    const double onBorder = r.top() + 1 - std::max(0.0, line + 1 - (M::header + 2) * scale_);
    const QString count = b.repeat > 1 ? QStringLiteral("×%1").arg(b.repeat) : QString();
    const double counted = count.isEmpty() ? 0 : names_.width(count) + 8;
    // The name of a narrow one, and the count behind it, may stand out of it where nothing else is.
    const QString number = numberOf(toQt(b.title));
    const auto& around = b.parent < 0 ? scene_.view.roots : scene_.view.boxes[static_cast<size_t>(b.parent)].children;
    const bool isOneOfMany = !number.isEmpty() && around.size() > many;
    const double room = std::max(r.width() - 2 * gap - counted - 2, isOneOfMany ? 0.0 : std::min(wide, 2 * r.height()));
    const QString text = withNumber(toQt(b.title), names_.fitted(toQt(b.title), room));
    double end = r.left() + gap, beside = onBorder;
    for (const QString& word : {text, number}) {  // of one that is too narrow, the number alone
      if (word.isEmpty()) continue;
      const double width = names_.width(word) + 4, left = r.left() + gap, right = r.right() - gap - width;
      const bool isOnMap = width * line <= mostOnMap * r.width() * r.height();
      const std::array<Candidate, 9> candidates{{{{left, onBorder}},
                                                 {{left, r.top() + 1}, true},
                                                 {{left, r.top() - line}, true},
                                                 {{left, r.top() + 1}, true, isOnMap},
                                                 {{std::max(left, right - counted), onBorder}},
                                                 {{std::max(left, right - counted), r.top() + 1}, true},
                                                 {{r.right() + 2, r.top()}, true},
                                                 {{r.left() - 2 - width, r.top()}, true},
                                                 {{r.right() - width, onBorder}, true}}};
      const std::array<Candidate, 3> inside{{candidates[1], candidates[3], candidates[0]}};
      const auto at =
          word == number ? firstFree(inside, {width, line}, box) : firstFree(candidates, {width, line}, box);
      if (!at) continue;
      add(Kind::Name, box, *at, word);
      end = at->right() + 2;
      if (at->left() >= r.right()) beside = at->top();
      break;
    }
    if (count.isEmpty()) return;
    const double high = names_.font().pixelSize() + 3, drop = (line - high) / 2;
    const double right = std::max(r.right() - 2 - counted, end);
    const std::array<Candidate, 5> candidates{{{{right, beside + drop}},
                                               {{r.right() - 2 - counted, r.top() + 1 + drop}, true},
                                               {{r.right() - 2 - counted, r.bottom() - high / 2}},
                                               {{r.right() + 2, r.top() + drop}, true},
                                               {{r.left() + gap, r.bottom() - high / 2}}}};
    if (const auto at = firstFree(candidates, {counted, high}, box)) add(Kind::Count, box, *at, count);
  }

  /// In the box where its words have room beside it; else beside or above it; else in it instead of its words.
  void countOf(int box) {
    constexpr double words = 28, overlap = 1;
    const QRectF r = shown(box);
    if (r.height() < SmallMetrics::lowest) return;
    const QString count = QStringLiteral("×%1").arg(scene_.view.boxes[static_cast<size_t>(box)].repeat);
    const double width = counts_.width(count) + 8, high = counts_.font().pixelSize() + 3;
    const double middle = middleOfFirstLine(!scene_.view.boxes[static_cast<size_t>(box)].detail.empty(), r, scale_);
    const QRectF inside(r.right() - 2 - width, middle - high / 2, width, high);
    const auto addInside = [&] {
      add(Kind::Count, box, inside, count);
      wordsEnd_[box] = inside.left() - 2 - r.left();
    };
    if (r.width() - width >= words) return addInside();
    // Its own words, which may be higher than the box, stay free.
    const QRectF own = hasOwnWords(box) ? withWords(r) : r;
    const std::array<Candidate, 6> candidates{{{{own.right() - overlap, r.center().y() - high / 2}, true},
                                               {{own.right() - overlap, own.top() + 1 - high}, true},
                                               {{r.center().x() - width / 2, own.top() + 1 - high}, true},
                                               {{own.left() + overlap - width, r.center().y() - high / 2}, true},
                                               {{own.right() - overlap, own.bottom() - 1}, true},
                                               {{r.center().x() - width / 2, own.bottom() - 1}, true}}};
    if (const auto at = firstFree(candidates, {width, high}, box)) return add(Kind::Count, box, *at, count);
    if (width <= r.width()) addInside();
  }

  /// "bmm_14" says no more than "bmm" where modules have names.
  static bool tellsMoreThanTitle(const Box& b) {
    if (b.name.size() <= b.title.size()) return false;
    if (b.parent < 0 || b.name.compare(0, b.title.size(), b.title) != 0) return true;
    return b.name.find_first_not_of("_0123456789", b.title.size()) != std::string::npos;
  }

  /// What tells most of where one is.
  static int rankOf(BoxKind kind) {
    switch (kind) {
      case BoxKind::Input:
      case BoxKind::Output:
        return 4;
      case BoxKind::Module:
      case BoxKind::Control:
      case BoxKind::Kernel:
        return 3;
      case BoxKind::Product:
      case BoxKind::Lookup:
        return 2;
      case BoxKind::Normalization:
      case BoxKind::Activation:
        return 1;
      default:
        return 0;
    }
  }

  const Scene& scene_;
  const double scale_;
  const SmallText &names_, &counts_;
  std::vector<PlacedLabel>& labels_;
  std::unordered_map<int, double>& wordsEnd_;
  mutable Taken taken_;
  mutable std::vector<signed char> has_;  ///< by box, whether it has words; -1: nobody asked
};

}  // namespace

bool hasTwoLines(bool hasDetail, double height, double scale) {
  constexpr double gaps = 4;
  return hasDetail &&
         height >= SmallText::pixelsAt(M::titleSize, scale) + SmallText::pixelsAt(M::detailSize, scale) + gaps;
}

double middleOfFirstLine(bool hasDetail, const QRectF& r, double scale) {
  constexpr double ofTwo = 0.31;  // of the height
  return hasTwoLines(hasDetail, r.height(), scale) ? r.top() + r.height() * ofTwo : r.center().y();
}

bool hasLine(const Scene& scene, int box, double scale) {
  const QRectF r = scene.rect(box);
  if (r.height() * scale >= SmallMetrics::lowest) return true;
  if (r.height() * scale < SmallMetrics::lowestApart) return false;
  const double line = SmallMetrics::letters / scale;
  const QRectF around(r.left(), r.center().y() - line, r.width(), 2 * line);
  return !scene.index.any(scene.layout.boxes, around, [&](int other) {
    return other != box && !scene.view.boxes[static_cast<size_t>(other)].open &&
           std::abs(scene.rect(other).center().y() - r.center().y()) < line;
  });
}

namespace {

/// How far the words of a low box may stand out of it, in pixels: what stands beside it may do the same.
double roomBeside(const Scene& scene, int box, double scale) {
  constexpr double apart = 1;
  const auto shown = [&](int i) {
    const QRectF r = scene.rect(i);
    return QRectF(r.topLeft() * scale, r.size() * scale);
  };
  const QRectF r = shown(box), around = withWords(r).adjusted(-overhang - apart, 0, overhang + apart, 0);
  double gap = INFINITY;
  scene.index.any(scene.layout.boxes, QRectF(around.topLeft() / scale, around.size() / scale), [&](int other) {
    if (other == box || scene.view.boxes[static_cast<size_t>(other)].open) return false;
    const QRectF o = shown(other);
    const double between = std::max(o.left() - r.right(), r.left() - o.right());
    if (between >= 0) gap = std::min(gap, between);
    return false;
  });
  return (gap - apart) / 2;
}

}  // namespace

namespace {

/// Where the first line of a box has room, in pixels from its left end, and how many lines its title may take.
struct Room {
  double left = 0, right = 0;
  int lines = 1;
  double beyond = 0;  ///< how far words may stand out of the box at both ends instead
  double width() const { return right - left; }
};

/// `wordsEnd`: a count that stands in the box begins there.
Room roomOf(const Scene& scene, int box, double scale, bool hasDetail, double wordsEnd) {
  const QRectF whole = scene.rect(box);
  const QRectF r(whole.topLeft() * scale, whole.size() * scale);
  const double padding = SmallMetrics::padding(r.width());
  Room room{padding, std::min(r.width() - padding, wordsEnd), 1, 0};
  const int size = SmallText::pixelsAt(M::titleSize, scale);
  if (wordsEnd <= r.width() - 1) return room;
  if (!hasTwoLines(hasDetail, r.height(), scale) && r.height() >= 2 * size) room.lines = 2;
  const std::string& title = scene.view.boxes[static_cast<size_t>(box)].title;
  if (r.height() <= wordsHeight && spellingFor(title, size, room.width(), room.lines) != size_t{0})
    room.beyond = std::clamp(roomBeside(scene, box, scale), 0.0, overhang);
  return room;
}

/// As `firstSpelling`, in the box or a little out of it.
std::optional<size_t> spellingIn(const std::string& title, int pixels, const Room& room) {
  const std::optional<size_t> in = spellingFor(title, pixels, room.width(), room.lines);
  if (room.beyond <= 0 || in == size_t{0}) return in;
  const std::optional<size_t> wider = spellingFor(title, pixels, room.right + room.left + 2 * room.beyond, 1);
  return !in || (wider && *wider < *in) ? wider : in;
}

/// What the usual text of a box leaves to its title, and how many lines.
std::pair<double, int> usualRoom(const Box& box, double width) {
  constexpr double count = 34, sign = 16;
  const bool hasSecondLine = !box.detail.empty() || !box.chips.empty();
  return {width - 2 * M::padding - (box.repeat > 1 ? count : 0) - (box.kind == BoxKind::Module ? sign : 0),
          hasSecondLine || box.repeat > 1 ? 1 : 2};
}

}  // namespace

BoxTitle LabelPlaces::titleOf(const Scene& scene, int box, bool hasDetail) const {
  const std::string& title = scene.view.boxes[static_cast<size_t>(box)].title;
  if (!hasLine(scene, box, scale_)) return {};
  const double width = scene.rect(box).width() * scale_;
  const Room room = roomOf(scene, box, scale_, hasDetail, wordsEnd(box, INFINITY));
  BoxTitle out{{}, room.left, room.right};
  const int size = SmallText::pixelsAt(M::titleSize, scale_);
  const size_t spelling = spellings_.of(title);
  out.text = smallTitle(title, spelling, size, room.width(), room.lines);
  const bool isWhole = out.text.form != SmallTitle::Form::Cut && out.text.form != SmallTitle::Form::None;
  if (isWhole || room.beyond <= 0) return out;
  SmallTitle wider = smallTitle(title, spelling, size, width + 2 * room.beyond, 1);
  if (wider.form == SmallTitle::Form::Whole || wider.form == SmallTitle::Form::Short)
    out = {std::move(wider), -room.beyond, width + room.beyond};
  return out;
}

SmallTitle LabelPlaces::usualTitle(const Scene& scene, int box) const {
  const Box& b = scene.view.boxes[static_cast<size_t>(box)];
  const auto [room, lines] = usualRoom(b, scene.rect(box).width());
  return smallTitle(b.title, spellings_.of(b.title), M::titleSize, room, lines);
}

void LabelPlaces::findSpellings(const Scene& scene) {
  const int size = SmallText::pixelsAt(M::titleSize, scale_);
  for (size_t i = 0; i < scene.view.boxes.size(); ++i) {
    const Box& box = scene.view.boxes[i];
    const auto index = static_cast<int>(i);
    if (box.open || formsOf(box.title).brief.empty() || !hasLine(scene, index, scale_)) continue;
    const Room room = roomOf(scene, index, scale_, !box.detail.empty(), wordsEnd(index, INFINITY));
    if (const auto first = spellingIn(box.title, size, room)) spellings_.add(box.title, formsOf(box.title), *first);
  }
}

void LabelPlaces::findUsualSpellings(const Scene& scene) {
  for (size_t i = 0; i < scene.view.boxes.size(); ++i) {
    const Box& box = scene.view.boxes[i];
    if (box.open || formsOf(box.title).brief.empty()) continue;
    const auto [room, lines] = usualRoom(box, scene.layout.boxes[i].width);
    if (const auto first = spellingFor(box.title, M::titleSize, room, lines))
      spellings_.add(box.title, formsOf(box.title), *first);
  }
}

bool hasWords(const Scene& scene, int box, double scale) {
  if (!hasLine(scene, box, scale)) return false;
  const std::string& title = scene.view.boxes[static_cast<size_t>(box)].title;
  const double width = scene.rect(box).width() * scale;
  const int size = SmallText::pixelsAt(M::titleSize, scale);
  if (hasSmallTitle(title, size, width - 2 * SmallMetrics::padding(width))) return true;
  const Room room = roomOf(scene, box, scale, true, INFINITY);
  return room.beyond > 0 && spellingFor(title, size, width + 2 * room.beyond, 1).has_value();
}

LabelPlaces::LabelPlaces(const Scene& scene, double scale) : scale_(scale) {
  if (M::detailSize * scale < SmallText::smallest) {
    Placer placer(scene, scale, labels_, wordsEnd_);
    placer.namesAndCounts();
    findSpellings(scene);
    placer.landmarks(spellings_);
  } else {
    findUsualSpellings(scene);
  }
  if (scale <= edgeLabels) return;
  shiftEdgeLabels(scene);
  hideCoveredLabels(scene);
}

/// Those of one box stand beside each other or, in a drawing that runs to the right, one below the other.
void LabelPlaces::shiftEdgeLabels(const Scene& scene) {
  constexpr double gap = 5;
  const int pixels = SmallText::pixelsAt(M::labelSize, scale_);
  const SmallText& words = SmallText::ofSize(pixels, QFont::Normal);
  const auto& all = scene.layout.labels;
  const auto at = [&](size_t i) { return QPointF(all[i].at.x, all[i].at.y) * scale_ + labelShift(i); };
  const auto makeRoom = [&](size_t* begin, size_t* end) {
    const bool isBeside = std::abs(at(begin[1]).y() - at(begin[0]).y()) < 1;
    if (isBeside) std::stable_sort(begin, end, [&](size_t a, size_t b) { return at(a).x() < at(b).x(); });
    for (size_t* label = begin + 1; label != end; ++label) {
      const QPointF before = at(label[-1]), own = at(*label);
      const double line = own.y() - before.y();
      if (!isBeside) {
        if (std::abs(line) < pixels + 1) shifts_[*label] = {0, line > 0 ? pixels + 1 - line : -pixels - 1 - line};
        continue;
      }
      const double free = before.x() + words.width(std::string_view(all[label[-1]].text)) + gap;
      if (own.x() < free) shifts_[*label] = {free - own.x(), 0};
    }
  };
  shifts_.assign(all.size(), {});
  std::vector<std::pair<int, size_t>> bySource(all.size());
  for (size_t i = 0; i < all.size(); ++i) bySource[i] = {scene.view.edges[static_cast<size_t>(all[i].edge)].from, i};
  std::sort(bySource.begin(), bySource.end());
  std::vector<size_t> own;
  for (size_t i = 0; i < bySource.size();) {
    own.clear();
    const int source = bySource[i].first;
    for (; i < bySource.size() && bySource[i].first == source; ++i) own.push_back(bySource[i].second);
    if (own.size() > 1) makeRoom(own.data(), own.data() + own.size());
  }
}

QRectF LabelPlaces::edgeLabelPlace(const Scene& scene, size_t label) const {
  const EdgeLabel& l = scene.layout.labels[label];
  const int pixels = SmallText::pixelsAt(M::labelSize, scale_);
  const QPointF at = QPointF(l.at.x, l.at.y) * scale_ + labelShift(label);
  const double width = SmallText::ofSize(pixels, QFont::Normal).width(std::string_view(l.text));
  return {at.x(), at.y() - 0.8 * pixels, width, static_cast<double>(pixels)};
}

void LabelPlaces::hideCoveredLabels(const Scene& scene) {
  Taken taken;
  covered_.assign(scene.layout.labels.size(), 0);
  for (size_t i = 0; i < scene.layout.labels.size(); ++i) {
    const QRectF r = edgeLabelPlace(scene, i);
    const Rect place{r.x(), r.y(), r.width(), r.height()};
    if (taken.isFree(place))
      taken.add(place);
    else
      covered_[i] = 1;
  }
}

}  // namespace graft
