// While a file is dragged over the page, the door that takes it is open: the page's style goes by this mark.
// A file that is dropped beside the page's own places for files is handed to the one that takes anything.
if (!window.__quantvizDrop) {
  window.__quantvizDrop = true;
  const { dataset } = document.documentElement;
  const ANYWHERE = ".st-key-home_file input[type=file], .st-key-drop_anywhere input[type=file]";
  const OWN = "[data-testid=stFileUploaderDropzone]";
  const close = () => delete dataset.qvFile;
  const hasFiles = ({ dataTransfer }) => dataTransfer?.types.includes("Files");
  const isOwn = ({ target }) => target instanceof Element && target.closest(OWN);
  // The files of a folder too, however deep they lie.
  const filesOf = async (entry) => {
    if (entry.isFile) return [await new Promise((done, fail) => entry.file(done, fail))];
    const reader = entry.createReader();
    const inside = [];
    for (;;) {
      const some = await new Promise((done, fail) => reader.readEntries(done, fail));
      if (!some.length) break;
      inside.push(...some);
    }
    return (await Promise.all(inside.map(filesOf))).flat();
  };
  const handOn = async (event) => {
    const input = document.querySelector(ANYWHERE);
    if (!input) return;
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
    const plain = [...event.dataTransfer.files];
    const files = entries.length ? (await Promise.all(entries.map(filesOf))).flat() : plain;
    const taken = new DataTransfer();
    for (const file of files) taken.items.add(file);
    input.files = taken.files;
    input.dispatchEvent(new Event("change", { bubbles: true }));
  };
  window.addEventListener("dragenter", (event) => {
    if (hasFiles(event)) dataset.qvFile = "";
  });
  window.addEventListener("dragleave", ({ relatedTarget }) => relatedTarget || close());
  window.addEventListener("dragend", close, { capture: true });
  // Without this the browser would leave the page for the file.
  window.addEventListener("dragover", (event) => {
    if (hasFiles(event) && !isOwn(event)) event.preventDefault();
  });
  window.addEventListener(
    "drop",
    (event) => {
      close();
      if (!hasFiles(event) || isOwn(event)) return;
      event.preventDefault();
      handOn(event);
    },
    { capture: true },
  );
}
