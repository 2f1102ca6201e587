// Counts the runs of its script that a page asks for. Streamlit's own state says that nothing runs until
// the server has begun, which on a busy machine is long after a press.
(() => {
  // Fields of Streamlit's messages: `rerun_script` and its `is_auto_rerun`, which the server may ignore;
  // `new_session`; and `script_finished`, with its value where another run follows at once.
  const RERUN = 11,
    AUTOMATIC = 6,
    BEGUN = 4,
    ENDED = 6,
    FOLLOWED = 2;
  let asked = 0,
    begun = true,
    ended = true,
    call = null,
    seen = 0,
    looks = 0;
  function* fields(bytes) {
    let at = 0;
    const varint = () => {
      let value = 0,
        shift = 1,
        byte;
      do {
        byte = bytes[at++];
        value += (byte & 127) * shift;
        shift *= 128;
      } while (byte & 128);
      return value;
    };
    while (at < bytes.length) {
      const tag = varint(),
        kind = tag & 7,
        start = at;
      if (kind === 0) yield [tag >> 3, varint()];
      else if (kind === 2) {
        const size = varint();
        at += size;
        yield [tag >> 3, bytes.subarray(at - size, at)];
      } else at = start + (kind === 1 ? 8 : 4);
    }
  }
  const sent = (bytes) => {
    const [[field, run]] = fields(bytes);
    if (field !== RERUN || [...fields(run)].some(([each, value]) => each === AUTOMATIC && value)) return;
    asked += 1;
    begun = ended = false;
  };
  const received = ({ data }) => {
    for (const [field, value] of fields(new Uint8Array(data))) {
      if (field === BEGUN) begun = true;
      if (field === ENDED && begun) ended = value !== FOLLOWED;
    }
  };
  const heard = new WeakSet();
  let sockets = null;
  const watch = (kind) => {
    const { send } = kind.prototype;
    sockets = kind;
    kind.prototype.send = function (data) {
      if (!(this instanceof sockets)) return send.call(this, data);
      if (!heard.has(this)) {
        heard.add(this);
        this.addEventListener("message", received);
        this.addEventListener("close", () => {
          begun = ended = true;
        });
      }
      if (ArrayBuffer.isView(data)) sent(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
      return send.call(this, data);
    };
  };
  watch(WebSocket);
  // A test that holds messages back puts a class of its own in this place: what the page has not got yet is
  // on its way.
  Object.defineProperty(window, "WebSocket", { configurable: true, get: () => sockets, set: watch });
  // Looks are counted, not milliseconds: between two of them a busy page does what waits.
  window.qvStill = ([thisCall, idle, enough]) => {
    const still = asked && ended && document.querySelector(idle) && thisCall === call && asked === seen;
    looks = still ? looks + 1 : 0;
    [call, seen] = [thisCall, asked];
    return looks >= enough;
  };
})();
