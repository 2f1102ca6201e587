"""Quantization golf through AppTest: a try, the budget, a link with faults, and the Lab left as it was."""

from quantviz.lab.page_state import History
from quantviz.schemes.scheme import Scheme
from quantviz.teaching.golf import GolfRound
from quantviz.text import catalogue
from tests.helpers.controls import choose, controls
from tests.helpers.session import LAB, address, healthy, opened

GOLF = "pages/learn/golf.py"


def said(at):
    """What is said of the last try, without Markdown."""
    return " ".join(str(each.value) for each in at.markdown).replace("*", "").replace("\\", "")


def test_a_try_is_told_and_kept_in_the_address():
    at = opened(GOLF, lang="en")
    assert "Par is an SQNR of 21.32 dB" in said(at)
    healthy(choose(at, "try"))
    assert "Try 1: 15.09 dB at 4.0002 bits, 6.23 dB short of par." in said(at)
    assert address(at) == {"hole": "bell", "bell": "int4", "lang": "en"}
    healthy(choose(at, ("recipe", "int8_g32")))
    assert "8.5 bits a weight: over the budget" in said(at)
    healthy(choose(at, "try"))
    assert "does not count" in said(at)
    assert "Round: +6.23 dB to par, 1 of 5 tensors" in said(at)
    healthy(at.button(key="golf_use_0").click().run())
    assert controls(at)["recipe"]["value"] == "int4_per_tensor"
    healthy(choose(at, "try"))
    assert "You have tried this already. Try 1" in said(at)
    healthy(at.button(key="golf_clear").click().run())
    assert address(at) == {"hole": "bell", "lang": "en"}


def test_a_link_is_computed_anew_and_its_faults_are_named():
    at = opened(
        GOLF,
        lang="zh",
        hole="columns",
        columns="int9~nf4,,per_group(size=32,axis=0)",
        bell="uint4,asymmetric,,given(scale=1e+38),torchao_tinygemm~int4",
    )
    words = catalogue("zh")
    assert len(at.warning) == 2
    assert "int9" in at.warning[0].value
    assert "bell" in at.warning[1].value, "it can be read, and fails when it is computed"
    assert "NVFP4" in said(at), "par is beaten, so its recipe is shown"
    assert words["golf.open_in_lab"] in [button.label for button in at.button]
    played, wrong = GolfRound.read(address(at))
    assert wrong == ()
    assert {name: len(tries) for name, tries in played.tries.items()} == {"columns": 1, "bell": 1}


def test_what_an_engine_refuses_when_it_is_computed_is_said_and_no_try():
    refused = "uint4,asymmetric,per_tensor,given(scale=1e+38),torchao_tinygemm"
    at = opened(GOLF, lang="en", bell=f"int4~{refused}")
    assert len(at.warning) == 1
    assert address(at) == {"hole": "bell", "bell": "int4", "lang": "en"}
    lab = at.session_state["golf_lab_state"].now
    at.session_state["golf_lab_state"] = History(lab.replace(scheme=Scheme.parse(refused)))
    healthy(choose(at, "try"))
    assert "torchao" in said(at)
    assert "Try 2" not in said(at)
    assert address(at) == {"hole": "bell", "bell": "int4", "lang": "en"}


def test_undo_takes_back_a_choice_and_then_the_try_before_it():
    at = opened(GOLF, lang="en")
    assert controls(at)["undo"]["disabled"], "there is nothing to undo"
    healthy(choose(at, ("bits", "3"), "try", ("bits", "5"), ("mode", "asymmetric")))
    healthy(choose(at, "undo"))
    assert (controls(at)["bits"]["value"], controls(at)["mode"]["value"]) == ("5", "symmetric")
    healthy(choose(at, "undo", "undo"))
    assert address(at) == {"hole": "bell", "lang": "en"}, "the try is taken back"
    assert controls(at)["bits"]["value"] == "4"
    healthy(choose(at, "redo"))
    assert address(at)["bell"] == "int3"
    assert controls(at)["redo"]["disabled"], "the choices after the try began anew"


def test_the_lab_is_left_as_it_was_until_a_try_is_opened_there():
    at = opened(LAB, t="builtin(name=picture)", s="uint2,symmetric,per_tensor,min_max,course", lang="en")
    before = address(at)
    healthy(at.switch_page(GOLF).run())
    healthy(choose(at, ("recipe", "int4_per_row")))
    healthy(choose(at, "try"))
    healthy(at.switch_page(LAB).run())
    assert address(at) == before
    healthy(at.switch_page(GOLF).run())
    assert controls(at)["recipe"]["value"] == "int4_per_row", "and golf is left as it was"
    healthy(at.button(key="golf_lab_0").click().run())
    assert address(at)["t"] == "normal(rows=256,cols=256)"
    assert address(at)["s"] == "int4,symmetric,per_channel,min_max,course"
    healthy(at.switch_page(LAB).run())  # of which these tests know only when they are told
    healthy(choose(at, "undo"))
    assert address(at)["t"] == before["t"]
