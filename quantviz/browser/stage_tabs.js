// From the moment another tab of the Lab's stage is chosen, the parts of the last one are dimmed until new
// ones take their places. Streamlit marks those that are old; `lab.css` dims them while the stage is marked.
if (!window.__quantvizStage) {
  window.__quantvizStage = true;
  // Milliseconds between two looks, and without a run.
  const [OFTEN, LONGEST] = [30, 1000];
  const isRunning = () =>
    document.querySelector("[data-testid=stApp]")?.dataset.testScriptState === "running";
  const turn = ({ target }) => {
    const tab = target.closest?.(".st-key-stage_tab [role=radio]");
    const stage = tab?.closest(".st-key-stage");
    if (!stage || tab.getAttribute("aria-checked") === "true") return;
    const pressed = performance.now();
    let began = false;
    stage.dataset.qvTurned = "asked";
    const look = () => {
      began ||= isRunning();
      if (began) stage.dataset.qvTurned = "running";
      if (began ? isRunning() : performance.now() - pressed < LONGEST) return setTimeout(look, OFTEN);
      delete stage.dataset.qvTurned;
    };
    look();
  };
  document.addEventListener("click", turn, true);
}
