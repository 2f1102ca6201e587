// From the moment another tab of the Lab's stage is chosen, the parts of the last one are dimmed until new
// ones take their places; the new sentence and the new ruler are shown in one frame. Streamlit marks parts
// that are old; `lab.css` dims all parts while the stage is marked "asked", and old ones while "running".
if (!window.__quantvizStage) {
  window.__quantvizStage = true;
  // Milliseconds after which no run is expected any more, and after a run no ruler.
  const [LONGEST, AFTER] = [10000, 1000];
  let stop = () => {};
  const turn = ({ target }) => {
    const stage = target.closest?.("[data-field=stage_tab]")?.closest(".st-key-stage");
    if (!stage) return;
    stop();
    const app = document.querySelector("[data-testid=stApp]");
    let began = false;
    let timer = setTimeout(() => began || stop(), LONGEST);
    const look = () => {
      const isRunning = app.dataset.testScriptState === "running";
      began ||= isRunning;
      if (!began) return;
      // A hand draws its ruler a little later, and shows the stage by itself.
      const isAsked = stage.dataset.qvTurned === "asked";
      const hasHand = stage.querySelector(".st-key-hand");
      if (isRunning) {
        const isOld = stage.querySelector(":is(.st-key-sentence, .st-key-ruler) [data-stale=true]");
        if (isAsked && !hasHand && !isOld) stage.dataset.qvTurned = "running";
      } else if (isAsked && hasHand) {
        clearTimeout(timer);
        timer = setTimeout(stop, AFTER);
      } else stop();
    };
    const observer = new MutationObserver(look);
    stop = () => {
      observer.disconnect();
      clearTimeout(timer);
      delete stage.dataset.qvTurned;
    };
    stage.dataset.qvTurned = "asked";
    observer.observe(app, { attributeFilter: ["data-test-script-state"] });
    const parts = { attributeFilter: ["data-stale", "data-qv-turned"], childList: true, subtree: true };
    observer.observe(stage, parts);
  };
  document.addEventListener("change", turn, true);
}
