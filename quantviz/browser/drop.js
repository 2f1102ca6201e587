// While a file is dragged over the page, the door that takes it is open: the page's style goes by this mark.
// What is dropped or pasted beside the page's own places, files or an address, is handed to the door that
// every page has.
if (!window.__quantvizDrop) {
  window.__quantvizDrop = true;
  const { dataset } = document.documentElement;
  const ANYWHERE = ".st-key-drop_anywhere input";
  const TYPED = "input, textarea, [contenteditable=true]";
  const OWN = "[data-testid=stFileUploaderDropzone]";
  const close = () => delete dataset.qvFile;
  // A link of the page that is dragged over it is no address for the door.
  let isInside = false;
  const hasFiles = ({ dataTransfer }) => dataTransfer?.types.includes("Files");
  const hasAny = (event) =>
    hasFiles(event) || (!isInside && event.dataTransfer?.types.includes("text/uri-list"));
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
  const handOnFiles = async (data) => {
    const input = document.querySelector(`${ANYWHERE}[type=file]`);
    if (!input) return;
    const entries = [...data.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
    const plain = [...data.files];
    const files = entries.length ? (await Promise.all(entries.map(filesOf))).flat() : plain;
    const taken = new DataTransfer();
    for (const file of files) taken.items.add(file);
    input.files = taken.files;
    input.dispatchEvent(new Event("change", { bubbles: true }));
  };
  const handOnAddress = (address) => {
    const input = document.querySelector(`${ANYWHERE}[type=text]`);
    if (!input) return;
    input.value = address;
    input.dispatchEvent(new Event("change"));
  };
  window.addEventListener("dragenter", (event) => {
    if (hasFiles(event)) dataset.qvFile = "";
  });
  window.addEventListener("dragleave", ({ relatedTarget }) => relatedTarget || close());
  window.addEventListener("dragstart", () => (isInside = true), { capture: true });
  window.addEventListener(
    "dragend",
    () => {
      isInside = false;
      close();
    },
    { capture: true },
  );
  // Without this the browser would leave the page for the file or the address.
  window.addEventListener("dragover", (event) => {
    if (hasAny(event) && !isOwn(event)) event.preventDefault();
  });
  window.addEventListener(
    "drop",
    (event) => {
      close();
      if (!hasAny(event) || isOwn(event)) return;
      event.preventDefault();
      if (hasFiles(event)) handOnFiles(event.dataTransfer);
      else handOnAddress(event.dataTransfer.getData("URL"));
    },
    { capture: true },
  );
  window.addEventListener("paste", ({ target, clipboardData }) => {
    if (target instanceof Element && target.closest(TYPED)) return;
    const text = clipboardData.getData("text").trim();
    if (clipboardData.files.length) handOnFiles(clipboardData);
    else if (/^(https?:\/\/|[\w.-]+\/)\S+$/.test(text)) handOnAddress(text);
  });
}
