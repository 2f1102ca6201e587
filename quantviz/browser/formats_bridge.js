// For the formats page: report clicks on rows of the code table and the width of the number line, and scroll
// the selected row into view.
const ROWS = ".st-key-formats_table tr[data-code]";
const LINE = ".st-key-formats_line";

export default function ({ data, parentElement, setTriggerValue, setStateValue }) {
  const page = parentElement.ownerDocument;
  const now = (parentElement.qvFormats ??= { data: null, cleanup: null });
  now.data = data;
  now.send = { setTriggerValue, setStateValue };
  if (!now.cleanup) {
    const onClick = (event) => {
      const row = event.target.closest?.(ROWS);
      if (row) now.send.setTriggerValue("code", Number(row.dataset.code));
    };
    page.addEventListener("click", onClick);
    const onResize = () => {
      const width = page.querySelector(LINE)?.clientWidth;
      if (!width) return;
      const fitting = Math.max(data.widths[0], ...now.data.widths.filter((each) => each <= width));
      if (fitting !== now.data.width && fitting !== now.told) {
        now.told = fitting;
        now.send.setStateValue("width", fitting);
      }
    };
    const observer = new ResizeObserver(onResize);
    const line = page.querySelector(LINE);
    if (line) observer.observe(line);
    onResize();
    now.cleanup = () => {
      page.removeEventListener("click", onClick);
      observer.disconnect();
      delete parentElement.qvFormats;
    };
  }
  const choice = `${data.format} ${data.selected}`;
  scrollTo(page, data.selected, choice, 40);
  // The table may be written again later, as in another language: scroll again.
  for (const later of [400, 1500])
    setTimeout(
      () =>
        choice === `${now.data?.format} ${now.data?.selected}` && scrollTo(page, data.selected, choice, 0),
      later,
    );
  return now.cleanup;
}

// Put the row in the middle of its box, once for each choice, without scrolling the page. The table may come
// after this call.
function scrollTo(page, code, choice, tries) {
  const row = page.querySelector(`${ROWS}[data-code="${code}"].qv-selected`);
  const box = row?.closest(".qv-codes");
  if (!box && tries > 0) setTimeout(() => scrollTo(page, code, choice, tries - 1), 100);
  if (!box || box.qvChoice === choice) return;
  box.qvChoice = choice;
  box.scrollTop = row.offsetTop - (box.clientHeight - row.offsetHeight) / 2;
}
