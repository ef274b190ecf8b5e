/* Before the first paint: mark that scripts run, and follow the system's light or dark unless a choice was made. */
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  if (!root.dataset.bsTheme) {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const follow = () => { root.dataset.bsTheme = dark.matches ? "dark" : "light"; };
    follow();
    dark.addEventListener("change", follow);
  }
})();
