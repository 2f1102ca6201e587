// Take a component that shows nothing out of the page's flow, where Streamlit would leave a gap; or put it
// back.
export function tuckAway(parent, away) {
  const outer = (parent instanceof ShadowRoot ? parent.host : parent)?.closest(
    "[data-testid=stElementContainer]",
  );
  if (outer)
    Object.assign(
      outer.style,
      away
        ? { position: "absolute", height: "0", overflow: "hidden" }
        : { position: "", height: "", overflow: "" },
    );
}
