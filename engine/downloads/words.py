"""Sentences about the hub and downloads."""

from __future__ import annotations

_RESUME = "What has come so far is kept: resume the download to go on."

SENTENCES: dict[str, str] = {
    "hub.offline": "Offline mode is on ({cause}), so nothing was asked of the network. Turn it off "
    "to search or download; models on this machine work without it.",
    "hub.unreachable": "{endpoint} cannot be reached: {reason}. Check the network, the proxy "
    "(HTTPS_PROXY) and the mirror (HF_ENDPOINT).{hint}",
    "hub.certificate": "{endpoint} shows a certificate that this machine does not trust "
    "({reason}). If your network inspects traffic, set SSL_CERT_FILE to its certificate.",
    "hub.failed": "{endpoint} failed with status {status}. The fault is there; try again later.",
    "hub.strange": "{endpoint} gave no hub's answer: {reason}. Check HF_ENDPOINT and the proxy; a "
    "sign-in page of the network may be in between.",
    "hub.rate_limited": "{endpoint} answers no more requests for now. Try again in {wait_s:.0f} "
    "seconds; a token raises the limit.",
    "hub.repo_not_found": "There is no repo {repo}, or it is private{token}. Check the name.",
    "hub.gated": "{repo} is given only to those who accept its conditions at {page}. {advice}",
    "hub.bad_token": "The hub does not accept the token from {source}: it is wrong or was revoked. "
    "Make a new one at https://huggingface.co/settings/tokens.",
    "hub.forbidden": "{repo} may not be read with this token: {reason}. Give the token the right "
    "to read it at https://huggingface.co/settings/tokens.",
    "hub.revision_not_found": "{repo} has no revision {revision}; it may have been rewritten. Use "
    "its main branch.",
    "hub.file_not_found": "{repo} has no file {file} any more. Look at the repo again.",
    "hub.too_many_files": "{repo} lists more than {limit} files, more than any repo of models has, "
    "so it was not read. Choose another repo.",
    "hub.bad_reference": "{text!r} names no repo. Give user/repo, user/repo:QUANT or an address "
    "such as https://huggingface.co/user/repo.",
    "hub.no_variant": "{repo} has no model {wanted!r}. It has {known}.",
    "hub.variant_needed": "{repo} has several models. Add one of these after a colon: {known}.",
    "hub.variant_incomplete": "{variant} of {repo} lacks parts on the hub itself, so it would not "
    "work. Choose another one.",
    "hub.no_prefiller": "No prefiller is published for {decoder}. Leave --prefiller out, and build "
    "one from a better file when the model is here.",
    "hub.unsafe_name": "{repo} has a file named {file!r}, which would not stay in its folder or "
    "cannot exist here, so it was not downloaded. Do not trust this repo.",
    "hub.no_keyring": "This system has no keyring to keep the token in ({reason}). Set HF_TOKEN "
    "instead.",
    "hub.token_text": "That is no token: {reason}. Copy it from "
    "https://huggingface.co/settings/tokens.",
    "download.no_hash": "The hub gives no hash for {file} of {repo}, so it could not be verified "
    "and was not downloaded. Choose another repo or mirror.",
    "download.wrong_bytes": "{file} came twice with other bytes than the hub's (SHA-256 {found} "
    "instead of {expected}), so it was not used. A proxy, a mirror or bad memory may change it: "
    "try another network or mirror, then retry.",
    "download.wrong_length": "{file} should have {expected} bytes and the server sends {found}. "
    "Try another network or mirror, then retry.",
    "download.remote_changed": "{file} of {repo} changed on the hub while it was downloaded, and "
    "again after starting over. Try again later.",
    "download.stalled": "{file}: next to nothing came for {seconds:.0f} seconds. " + _RESUME,
    "download.cut": "{file}: the connection was cut ({reason}). " + _RESUME,
    "download.gave_up": "{file} made no progress in {attempts} attempts ({reason}). Check the "
    "network. What has come so far is kept, and while Twofold is open it tries again by itself; "
    "resume the download to try at once.",
    "download.disk_full": "{folder} has {free:size} free, and {needed:size} are still needed. Free "
    "some space, or move the library to another disk with ./twofold models move. " + _RESUME,
    "download.cannot_write": "{path} cannot be written: {reason}. Check the drive and the folder's "
    "permissions. " + _RESUME,
    "jobs.unexpected": "This job failed for a reason that was not foreseen ({kind}). The log says "
    "more; please report it.",
    "jobs.no_such_job": "There is no job {id}. ./twofold models list --jobs shows all.",
    "jobs.wrong_state": "A job that is {state} cannot be changed that way ({action}).",
    "jobs.build_failed": "Building the prefiller failed: {reason}. Nothing half-done was left "
    "behind; free some memory or disk and try again.",
}
