// A widget of a notebook: the page of `alone.js` in a frame of its own, which the kernel sends when it is asked.

export default function () {
  return { render: showFrame };
}

// Whether the notebook is dark, as JupyterLab, VS Code and others say it; else as the reader's system is.
function isDark({ body }) {
  const { jpThemeLight, vscodeThemeKind, theme } = body.dataset;
  if (jpThemeLight) return jpThemeLight === "false";
  const said = vscodeThemeKind ?? theme;
  return said ? said.includes("dark") : matchMedia("(prefers-color-scheme: dark)").matches;
}

function showFrame({ model, el }) {
  const view = Math.random().toString(36);
  const frame = el.appendChild(document.createElement("iframe"));
  // Its scripts run, but reach nothing of the notebook.
  frame.sandbox = "allow-scripts";
  frame.style.cssText = "display: block; width: 100%; height: 0; border: 0;";
  const ask = () => model.send({ asked: { view, dark: isDark(document) } });
  const take = ({ view: asked, anew }, [page] = []) => {
    if (anew) ask();
    if (asked === view) frame.srcdoc = new TextDecoder().decode(page);
  };
  const hear = ({ source, data }) => {
    if (source !== frame.contentWindow) return;
    const { height, ...chosen } = data;
    if (height) frame.style.height = `${height}px`;
    else model.send({ chosen });
  };
  model.on("msg:custom", take);
  addEventListener("message", hear);
  ask();
  return () => {
    model.off("msg:custom", take);
    removeEventListener("message", hear);
  };
}
