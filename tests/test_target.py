"""What people write into a target file and paste into it, and what is refused without being quoted."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relay_audit.base_address import below, is_loopback, normalise_address, origin_of
from relay_audit.errors import KeyRefused, TargetError
from relay_audit.target import at_vendor, read_target, target_from

LITERAL = "sk-Q7vX2mP9LtR4wZc8NbY1kHs6"
FILE = """
[target]
name = "vendor-a"
model = "claude-sonnet-5-5"
claim = { channel = "anthropic", group = "官转", ratio = 0.3 }
[relay]
base_url = "relay.example/v1/messages"
key_env = "RELAY_KEY"
[official]
base_url = "https://api.anthropic.com"
key_env = "OFFICIAL_KEY"
"""


@pytest.mark.parametrize(
    ("pasted", "address"),
    [
        ("https://relay.example", "https://relay.example"),
        ("https://relay.example/", "https://relay.example"),
        ("https://relay.example/v1", "https://relay.example"),
        ("https://relay.example/v1/", "https://relay.example"),
        ("https://relay.example/v1/messages", "https://relay.example"),
        ("https://relay.example/v1/messages/count_tokens", "https://relay.example"),
        ("https://relay.example/v1/chat/completions", "https://relay.example"),
        ("https://relay.example/v1/responses/", "https://relay.example"),
        ("https://relay.example/v1/models", "https://relay.example"),
        ("https://relay.example/api/v1/messages", "https://relay.example/api"),
        ("https://relay.example/claude", "https://relay.example/claude"),
        ("https://relay.example/v1/v1", "https://relay.example/v1"),
        ("https://relay.example/openv1", "https://relay.example/openv1"),
        ("https://relay.example/api/paas/v4/", "https://relay.example/api/paas/v4"),
        ("https://relay.example/api/paas/v4/chat/completions", "https://relay.example/api/paas/v4"),
        ("https://relay.example/chat/completions", "https://relay.example"),
        ("https://relay.example/api/v3", "https://relay.example/api/v3"),
        ("https://relay.example/v2/v1", "https://relay.example/v2/v1"),
        ("relay.example", "https://relay.example"),
        ("relay.example:8443/v1", "https://relay.example:8443"),
        ("  https://relay.example/v1 \n", "https://relay.example"),
        ("https:// relay.example /v1", "https://relay.example"),
        ("ｈｔｔｐｓ：／／ｒｅｌａｙ．ｅｘａｍｐｌｅ／ｖ１", "https://relay.example"),
        ("https://relay.example。", "https://relay.example"),
        ("https://relay。example/v1", "https://relay.example"),
        ("https://中转.example/v1", "https://中转.example"),
        ("`https://relay.example/v1`", "https://relay.example"),
        ("'https://relay.example'", "https://relay.example"),
        ("<https://relay.example/v1>,", "https://relay.example"),
        ("https://relay\u200b.example/v1", "https://relay.example"),
        ("\ufeffhttps://relay.example", "https://relay.example"),
        ("HTTPS://Relay.Example/V1x", "https://relay.example/V1x"),
        ("127.0.0.1:3000/v1", "http://127.0.0.1:3000"),
        ("localhost:3000", "http://localhost:3000"),
        ("http://[::1]:3000/v1", "http://[::1]:3000"),
        ("http://127.0.0.1", "http://127.0.0.1"),
        ("localhost.example", "https://localhost.example"),
    ],
)
def test_an_address_as_people_paste_it(pasted, address):
    assert normalise_address(pasted) == address
    assert normalise_address(address) == address or address.endswith("/v1")


CHAT, FILMS = "/v1/chat/completions", "/api/v3/contents/generations/tasks"


@pytest.mark.parametrize(
    ("root", "path", "address"),
    [("", CHAT, CHAT), ("/", CHAT, CHAT), ("/openai", CHAT, "/openai" + CHAT),
     ("/api/paas/v4", CHAT, "/api/paas/v4/chat/completions"), ("/api/paas/v4", "/v1/models", "/api/paas/v4/models"),
     ("/api/v3", CHAT, "/api/v3/chat/completions"), ("/api/v3", FILMS, FILMS), ("/api/v3", FILMS + "/cgt-1", FILMS + "/cgt-1"),
     ("/api/v3", "/v1/video/generations", "/v1/video/generations"), ("/v2/v1", CHAT, "/v2" + CHAT),
     ("/v2", "/v1/video/generations", "/v2/v1/video/generations"), ("/v10", "/v1/responses", "/v10/responses"),
     ("/v4", "/v1/messages/count_tokens", "/v4/messages/count_tokens"), ("/v4", "/v1/modelsx", "/v4/v1/modelsx"),
     ("/v1beta", "/v1/models?page=2", "/v1beta/models?page=2"), ("/xv4", CHAT, "/xv4" + CHAT)],
)  # fmt: skip
def test_where_a_request_lies_below_an_address(root, path, address):
    assert below(f"https://relay.example{root}", path) == f"https://relay.example{address}"


@pytest.mark.parametrize(
    ("given", "meant"),
    [("", "https://open.example/api/paas/v4"), ("https://two.example", "https://two.example/api/paas/v4"),
     ("https://two.example/v1", "https://two.example/api/paas/v4"), ("https://two.example/own", "https://two.example/own"),
     ("https://other.example", "https://other.example")],
)  # fmt: skip
def test_the_vendors_host_alone_means_its_own_root(given, meant):
    roots = ("https://open.example/api/paas/v4", "https://two.example/api/paas/v4")
    named = f'base_url = "{given}"\n' if given else ""
    target = read_target(f'{FILE.partition("[official]")[0]}[official]\nkey_env = "K"\n{named}')[0]
    assert at_vendor(target, roots).official.base_url == meant
    assert at_vendor(at_vendor(target, roots), roots) == at_vendor(target, roots)


@pytest.mark.parametrize(
    "quoted",
    ["“https://relay.example/v1”", "「https://relay.example」", "（https://relay.example）", "https://relay.example；"],
)
def test_quotes_and_stops_of_a_chat_come_off(quoted):
    assert normalise_address(quoted) == "https://relay.example"


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "   ",
        "https://",
        "ftp://relay.example",
        "https://relay.example:99999",
        "https://relay.example:port",
        "https://[::1",
        "https://relay.example?key=1",
        "https://relay.example/v1#top",
        "file:///etc/passwd",
        "http://relay.example",
        "http://127.0.0.2",
        "https://re\\lay.example",
        "https://..",
        "https://relay..example",
        "https://a$b",
        "http://localhost.example",
        "http://169.254.169.254/v1",
    ],
)
def test_an_address_that_is_none_or_not_safe(bad):
    with pytest.raises(TargetError):
        normalise_address(bad)


@pytest.mark.parametrize(
    "bad", ["https://me@relay.example", "https://me:secretword@relay.example", "https://:secretword@relay.example"]
)
def test_a_password_in_an_address_is_refused_and_not_quoted(bad):
    with pytest.raises(KeyRefused) as refused:
        normalise_address(bad)
    assert "secretword" not in refused.value.message + refused.value.next_step


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=24))
def test_any_text_is_an_address_or_is_refused(text):
    try:
        address = normalise_address(text)
    except (TargetError, KeyRefused):
        return
    assert address.startswith("https://") or is_loopback(address)
    assert not address.endswith("/")


@pytest.mark.parametrize(
    ("address", "origin"),
    [
        ("https://relay.example:443/v1", "https://relay.example"),
        ("https://relay.example:80", "https://relay.example:80"),
        ("http://127.0.0.1:80", "http://127.0.0.1"),
        ("http://[::1]:3000/x", "http://[::1]:3000"),
        ("https://RELAY.example/a", "https://relay.example"),
    ],
)
def test_an_origin(address, origin):
    assert origin_of(address) == origin


def test_only_loopback_is_loopback():
    assert all(map(is_loopback, ("http://127.0.0.1:1", "http://localhost", "http://[::1]:2")))
    assert not any(
        map(is_loopback, ("https://127.0.0.1.example", "https://relay.example", "http://10.0.0.1", "nonsense"))
    )


def test_a_whole_file():
    [target] = read_target(FILE)
    assert (target.subject.name, target.subject.model, target.subject.claim.ratio) == (
        "vendor-a",
        "claude-sonnet-5-5",
        Decimal("0.3"),
    )
    assert target.relay.base_url == "https://relay.example"
    assert target.key_names == ("RELAY_KEY", "OFFICIAL_KEY")
    assert target.official_model == "claude-sonnet-5-5"


def test_without_an_official_side():
    [target] = read_target(FILE.split("[official]")[0])
    assert (target.official, target.key_names, target.official_model) == (None, ("RELAY_KEY",), "claude-sonnet-5-5")


def test_the_official_name_of_a_model():
    [target] = read_target(FILE + 'model = "claude-opus-5-5"\n')
    assert target.official_model == "claude-opus-5-5"


def test_models_is_shorthand_for_one_target_each():
    text = FILE.replace('model = "claude-sonnet-5-5"', 'models = ["a", "b", "c"]')
    targets = read_target(text)
    assert [t.subject.model for t in targets] == ["a", "b", "c"]
    assert {t.subject.name for t in targets} == {"vendor-a"}
    assert len({t.relay for t in targets}) == 1


@pytest.mark.parametrize("models", ["[]", '"a"', "3", '["a", 3]', '["a", ""]'])
def test_models_that_are_no_list_of_names(models):
    with pytest.raises(TargetError):
        read_target(FILE.replace('model = "claude-sonnet-5-5"', f"models = {models}"))


def test_model_and_models_exclude_each_other():
    with pytest.raises(TargetError, match="replaces"):
        read_target(FILE.replace('name = "vendor-a"', 'models = ["a"]'))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('key_env = "RELAY_KEY"', 'key_enw = "RELAY_KEY"', "unknown key relay.key_enw (did you mean key_env?)"),
        ("[official]", "[offical]", "unknown key offical (did you mean official?)"),
        ('channel = "anthropic"', 'chanel = "anthropic"', "unknown key target.claim.chanel (did you mean channel?)"),
        ("[official]", "[zzz]\n[official]", "(known: target, relay,"),
        ('name = "vendor-a"', 'modle = "x"', "unknown key target.modle (did you mean model?)"),
        (
            "[official]",
            "[prices]\ncny_per_usd = { valeu = 7 }\n[official]",
            "prices.cny_per_usd.valeu (did you mean value?)",
        ),
    ],
)
def test_an_unknown_key_names_the_nearest(old, new, says):
    with pytest.raises(TargetError) as refused:
        read_target(FILE.replace(old, new, 1))
    assert says in refused.value.message


@pytest.mark.parametrize("needed", ['model = "claude-sonnet-5-5"', 'base_url = "relay.example/v1/messages"'])
def test_what_is_needed_is_named(needed):
    with pytest.raises(TargetError, match="Field required") as refused:
        read_target(FILE.replace(needed, "", 1))
    assert needed.split(" ")[0] in refused.value.message


@pytest.mark.parametrize(
    "addition",
    [
        "[audit]\nchecks = [7]",
        "[audit]\nchecks = [0]",
        "[audit]\nprofile = 'fast'",
        "[budget]\nmax_usd = 0",
        "[budget]\nmax_usd = -1",
        "[internal]\ntypical_input_tokens = 0",
    ],
)
def test_values_out_of_range(addition):
    with pytest.raises(TargetError):
        read_target(f"{FILE}\n{addition}\n")


def test_a_ratio_of_nothing_is_refused():
    with pytest.raises(TargetError):
        read_target(FILE.replace("ratio = 0.3", "ratio = 0"))


def test_both_sides_need_a_key_of_their_own():
    with pytest.raises(TargetError, match="same variable"):
        read_target(FILE.replace("OFFICIAL_KEY", "RELAY_KEY"))


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ('"RELAY_KEY"', f'"{LITERAL}"', "relay.key_env"),
        ('"RELAY_KEY"', '"9f8e7d6c5b4a39281706f5e4d3c2b1a09f8e7d6c5b4a"', "relay.key_env"),
        ('"RELAY_KEY"', '"a9f8e7d6c5b4a39281706f5e4d3c2b1a09f8e7d6c5b4a"', "relay.key_env"),
        ('"RELAY_KEY"', '"with space"', "relay.key_env"),
        ('"RELAY_KEY"', '""', "relay.key_env"),
        ('"vendor-a"', f'"{LITERAL}"', "target.name"),
        ("relay.example/v1/messages", f"relay.example/{LITERAL}", "relay.base_url"),
        ("官转", f"cr_{'a1B2' * 8}", "target.claim.group"),
        ("[official]", f'[internal]\nline_names = ["x", "{LITERAL}"]\n[official]', "internal.line_names[1]"),
        ("[official]", f'[needs]\na = "AIza{"x" * 35}"\n[official]', "needs.a"),
        ("[official]", f"[needs]\n{LITERAL} = 1\n[official]", "[needs]"),
        ("[official]", f"[{LITERAL}]\n[official]", "the file"),
    ],
)
def test_a_literal_key_is_refused_by_position_never_by_text(old, new, place):
    with pytest.raises(KeyRefused) as refused:
        read_target(FILE.replace(old, new, 1))
    said = refused.value.message + refused.value.next_step + str(refused.value.details)
    assert place in refused.value.message
    assert not any(piece in said for piece in (LITERAL, LITERAL[3:15], "9f8e7d6c", "a1B2a1B2", "x" * 12))


def test_a_literal_key_is_refused_before_anything_else_is_looked_at():
    with pytest.raises(KeyRefused):
        read_target(FILE.replace('"RELAY_KEY"', f'"{LITERAL}"') + "\nunheard_of = 1\n")
    with pytest.raises(KeyRefused):
        target_from({"relay": {"key_env": LITERAL}})


def test_names_of_variables_are_names():
    for name in ("RELAY_KEY", "_x", "MY_VERY_LONG_VARIABLE_NAME_FOR_A_RELAY_KEY_2", "k"):
        assert read_target(FILE.replace("RELAY_KEY", name))[0].relay.key_env == name


def test_what_is_no_toml_is_not_quoted():
    with pytest.raises(TargetError) as refused:
        read_target(FILE.replace('"RELAY_KEY"', LITERAL))
    assert LITERAL not in refused.value.message
    with pytest.raises(TargetError) as refused:
        read_target(f"{LITERAL} = 1\n{LITERAL} = 2\n")
    assert LITERAL not in refused.value.message
