"""`highwater.estimate`."""

import inspect
import json
import re

import pytest

import highwater
from highwater._highwater import estimate_options


def test_a_name_and_a_mapping_give_the_same() -> None:
    config = {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50257}
    by_name = highwater.estimate("gpt2", batch=4, seq=512)
    by_config = highwater.estimate(config, batch=4, seq=512)
    assert by_name.parameters == by_config.parameters == 124_439_808
    assert by_name.peak_requested_bytes == by_config.peak_requested_bytes


def test_the_document_is_that_of_the_command() -> None:
    answer = highwater.estimate("qwen2.5-0.5b", batch=2, seq=128, dtype="bfloat16", checkpointing=True)
    assert answer.document["format"] == "highwater-estimate"
    assert answer.total_bytes == answer.peak_reserved_bytes + answer.context_bytes
    assert sum(answer.breakdown.values()) == answer.peak_requested_bytes


def test_a_model_with_a_configuration_is_taken() -> None:
    class Config:
        def to_dict(self) -> dict[str, object]:
            return {"model_type": "bert"}

    class Model:
        config = Config()

    assert highwater.estimate(Model(), seq=64).parameters == 109_514_298


@pytest.mark.parametrize("options", [{"batch": 0}, {"dtype": "int3"}, {"optimizer": "none"}, {"gpu": "h300"}])
def test_what_makes_no_sense_is_named(options: dict[str, object]) -> None:
    with pytest.raises(highwater.SnapshotError):
        highwater.estimate("gpt2", **options)  # type: ignore[call-overload]


def test_every_option_is_an_argument_with_its_default_and_its_words() -> None:
    options = json.loads(estimate_options())
    arguments = inspect.signature(highwater.estimate).parameters
    assert {name.replace("_", "-") for name in arguments} == {"config-or-model", "serve", "engine", *(option["name"] for option in options)}
    text = inspect.getdoc(highwater.estimate) or ""
    for option in options:
        argument = option["name"].replace("-", "_")
        usual = arguments[argument].default
        said = "" if usual is None else str(usual).lower()
        assert said in (option["usual"], option["usual"] + ".0"), argument
        assert re.search(rf"^ *(\w+, )*{argument}\b", text, re.MULTILINE), argument
        if argument != "gpu":
            for choice in option.get("choices", []):
                assert f'``"{choice["name"]}"``' in text or f'``{choice["name"]}``' in text, choice["name"]


def test_dropout_before_adapters_takes_memory() -> None:
    peak = highwater.estimate("gpt2", batch=8, seq=512, lora_rank=8).peak_requested_bytes
    dropped = highwater.estimate("gpt2", batch=8, seq=512, lora_rank=8, lora_dropout=0.1)
    assert dropped.peak_requested_bytes > peak


def test_heads_that_do_not_divide_are_named() -> None:
    with pytest.raises(highwater.SnapshotError):
        highwater.estimate({"model_type": "llama", "hidden_size": 100, "num_attention_heads": 3})


def test_other_objects_are_refused() -> None:
    with pytest.raises(TypeError, match="expected a name"):
        highwater.estimate(3)


def test_an_engine_serves_with_its_own_flags() -> None:
    answer = highwater.estimate("llama3.1-8b", serve="vllm@0.11.0", gpu="h100", max_model_len=16000)
    assert answer.starts and answer.refusal is None
    assert answer.document["format"] == "highwater-serve"
    # An H100 printed 51.38 GiB.
    assert abs(answer.kv_cache_bytes / 2**30 - 51.38) < 0.1
    refused = highwater.estimate("llama3.1-70b", serve="vllm", gpu="h100")
    assert not refused.starts and "weights" in str(refused.refusal)
    with pytest.raises(highwater.SnapshotError):
        highwater.estimate("gpt2", serve="vllm", mem_fraction_static=0.8)
