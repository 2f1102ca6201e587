// While a file is dragged over the page, the door that takes it is open: the page's style goes by this mark.
if (!window.__quantvizDrop) {
  window.__quantvizDrop = true;
  const { dataset } = document.documentElement;
  const close = () => delete dataset.qvFile;
  window.addEventListener("dragenter", ({ dataTransfer }) => {
    if (dataTransfer?.types.includes("Files")) dataset.qvFile = "";
  });
  window.addEventListener("dragleave", ({ relatedTarget }) => relatedTarget || close());
  for (const name of ["drop", "dragend"]) window.addEventListener(name, close, { capture: true });
}
