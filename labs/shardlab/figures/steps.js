// Step through an animation of shardlab.figures.animate: arrow keys, space, or its buttons. Loads nothing.
(() => {
  const begin = (root) => {
    const frames = [...root.querySelectorAll(".picture")];
    const sentences = [...root.querySelectorAll("li")].map((one) => one.textContent);
    const [back, next] = root.querySelectorAll("button");
    const show = (step) => {
      const now = Math.max(0, Math.min(frames.length - 1, step));
      root.dataset.step = now;
      frames.forEach((one, number) => { one.hidden = number !== now; });
      root.querySelector(".number").textContent = `${now + 1} of ${frames.length}`;
      root.querySelector(".words").textContent = sentences[now];
      back.setAttribute("aria-disabled", now === 0);
      next.setAttribute("aria-disabled", now === frames.length - 1);
    };
    const moves = { ArrowLeft: -1, ArrowRight: 1, " ": 1, Home: -frames.length, End: frames.length };
    const by = (move) => show(Number(root.dataset.step) + move);
    back.addEventListener("click", () => by(-1));
    next.addEventListener("click", () => by(1));
    root.addEventListener("keydown", (event) => {
      const onControl = event.key === " " && event.target !== root; // a button or the list uses its own space key
      if (!(event.key in moves) || onControl || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      event.stopPropagation();
      by(moves[event.key]);
    });
    root.querySelector(".controls").hidden = false;
    root.querySelector("details").open = false;
    show(0);
  };
  const beginAll = () => document.querySelectorAll(".steps:not([data-step])").forEach(begin);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", beginAll);
  else beginAll();
})();
