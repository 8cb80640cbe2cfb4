"""A drawing in a notebook's cell that can be dragged and zoomed. It needs no network and no library."""

import uuid

_SCRIPT = """
<div id="%(id)s" style="overflow:hidden;border:1px solid #8884;height:480px;cursor:grab;touch-action:none">%(svg)s</div>
<script>
(() => {
  const frame = document.getElementById("%(id)s"), svg = frame.querySelector("svg");
  const whole = svg.viewBox.baseVal, box = {x: whole.x, y: whole.y, w: whole.width, h: whole.height};
  svg.setAttribute("width", "100%%"); svg.setAttribute("height", "100%%");
  const show = () => svg.setAttribute("viewBox", [box.x, box.y, box.w, box.h].join(" "));
  const scale = () => Math.max(box.w / frame.clientWidth, box.h / frame.clientHeight);
  frame.addEventListener("wheel", e => {
    e.preventDefault();
    const at = frame.getBoundingClientRect(), by = Math.exp(e.deltaY / 400);
    const fx = (e.clientX - at.left) / at.width, fy = (e.clientY - at.top) / at.height;
    box.x += box.w * (1 - by) * fx; box.y += box.h * (1 - by) * fy; box.w *= by; box.h *= by;
    show();
  }, {passive: false});
  frame.addEventListener("pointermove", e => {
    if (!e.buttons) return;
    box.x -= e.movementX * scale(); box.y -= e.movementY * scale();
    show();
  });
  frame.addEventListener("dblclick", () => { Object.assign(box, {x: whole.x, y: whole.y, w: whole.width, h: whole.height}); show(); });
})();
</script>
"""


class Picture:
    """What a notebook shows of an SVG drawing; `svg` is its text."""

    def __init__(self, svg: str):
        self.svg = svg

    def _repr_html_(self) -> str:
        picture = self.svg[self.svg.index("<svg"):]
        return _SCRIPT % {"id": f"graft-{uuid.uuid4().hex}", "svg": picture}
