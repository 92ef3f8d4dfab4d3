"""An example: a Website owns a Deployment and a Service, and says in its status
how they fare. The same controller is there in Rust and in Go; one set of
scenarios holds for all three.

Nothing but the standard library and the bindings that componentize-py makes of
the contract (wit/).
"""

import json
from datetime import datetime, timezone

import wit_world
from componentize_py_types import Err
from wit_world.imports import log
from wit_world.imports import manifest as m
from wit_world.imports import reconcile as r
from wit_world.imports import snapshot
from wit_world.imports.types import GroupResource, ObjectRef

# Positions in request.resources, which follows the manifest's reads.
WEBSITES, CONFIG_MAPS, DEPLOYMENTS, SERVICES = range(4)
RESOURCES = [
    GroupResource("demo.coxswain.dev", "v1", "websites"),
    GroupResource("", "v1", "configmaps"),
    GroupResource("apps", "v1", "deployments"),
    GroupResource("", "v1", "services"),
]
KINDS = ["Website", "ConfigMap", "Deployment", "Service"]

# The label that says whose something is.
LABEL = "demo.coxswain.dev/website"
# Moves when the configuration does, so that pods are replaced.
CONFIG_HASH = "demo.coxswain.dev/config-hash"

FIELDS = [
    ["spec.{image,replicas,port,host,config}", "status.{observedGeneration,readyReplicas,conditions}"],
    ["data"],
    [
        "spec.replicas",
        f'spec.template.metadata.annotations."{CONFIG_HASH}"',
        "spec.template.spec.containers[*].{name,image}",
        "spec.template.spec.containers[*].ports[*].containerPort",
        "spec.template.spec.containers[*].envFrom[*].configMapRef.name",
        "status.{observedGeneration,updatedReplicas,readyReplicas}",
    ],
    ["spec.selector", "spec.ports[*].{name,port,targetPort}"],
]


class AskFirst(Exception):
    """A lookup must be answered before there can be a plan."""

    def __init__(self, lookup: r.Lookup):
        self.lookup = lookup


class Retry(Exception):
    """Try again after the key's backoff."""


def manifest() -> m.Manifest:
    """What the module is."""
    index = [m.Index("host", ["spec.host"])]
    return m.Manifest(
        name="website-controller",
        aliases=["website"],
        version="0.1.0-python",
        state_format=0,
        accepts_state_formats=[],
        sources=[m.KeySource("websites", m.KeyKind_Objects([RESOURCES[WEBSITES]]), False, "")],
        reads=[
            m.Read(
                resource=RESOURCES[i],
                optional=False,
                fields=FIELDS[i],
                whole=False,
                sensitive=[],
                indexes=index if i == WEBSITES else [],
            )
            for i in range(4)
        ],
        writes=[
            m.WriteRule(RESOURCES[DEPLOYMENTS], "", ["create", "patch"]),
            m.WriteRule(RESOURCES[SERVICES], "", ["create", "patch"]),
            m.WriteRule(RESOURCES[WEBSITES], "status", ["patch"]),
            # Owner references that block the owner's deletion ask for this.
            m.WriteRule(RESOURCES[WEBSITES], "finalizers", ["update"]),
        ],
        lookups=[m.LookupRule_Get(m.ResourceRule(RESOURCES[WEBSITES], ""))],
        options=[],
        event_component="",
        concurrency=0,
        concurrency_flag="",
        client_limits=m.ClientLimits(0, 0),
        metrics=[],
    )


class WitWorld(wit_world.WitWorld):
    """The component's exports."""

    def describe(self) -> m.Manifest:
        # The contract has no error here, and a traceback has nowhere to go.
        try:
            return manifest()
        except Exception as why:
            log.log(log.Level.ERROR, f"{type(why).__name__}: {why}")
            raise

    def reconcile(self, request: r.Request) -> r.Outcome:
        # An exception that leaves this method would be a trap, so none does.
        try:
            return r.Outcome_Plan(Reconcile(request).plan())
        except AskFirst as ask:
            return r.Outcome_Lookups([ask.lookup])
        except Retry as why:
            return r.Outcome_Retry(str(why))
        except Err:
            raise
        except Exception as why:
            raise Err(f"{type(why).__name__}: {why}") from why


class Reconcile:
    """One reconcile of one website."""

    def __init__(self, request: r.Request):
        self.request = request

    def plan(self) -> r.Plan:
        nothing = r.Plan([], [], None, 0, r.StateChange_Keep(), [])
        if self.request.primary is None:
            return nothing
        self.site = site = read(self.request.primary)
        self.meta = meta = site["metadata"]
        self.name, self.namespace = meta["name"], meta["namespace"]
        if "deletionTimestamp" in meta:
            return nothing  # What it owns is the garbage collector's.
        spec = site["spec"]
        self.replicas, self.port = spec.get("replicas", 1), spec.get("port", 80)
        self.host, config_name = spec.get("host", ""), spec.get("config", "")

        deployment = self.get(DEPLOYMENTS, self.name)
        service = self.get(SERVICES, self.name)
        standings = [self.standing(deployment), self.standing(service)]
        config = self.get(CONFIG_MAPS, config_name) if config_name else None
        winner = self.host_winner()

        actions = []
        if winner is not None and winner["uid"] != meta["uid"]:
            ready = False, "HostTaken", f"{self.host} belongs to website {winner['namespace']}/{winner['name']}"
        elif config_name and config is None:
            ready = False, "ConfigMissing", f"there is no ConfigMap {config_name}"
        elif standings[0] == "foreign":
            ready = False, "NameTaken", f"Deployment {self.name} is not this website's"
        elif standings[1] == "foreign":
            ready = False, "NameTaken", f"Service {self.name} is not this website's"
        else:
            if "orphan" in standings and not self.still_there():
                return nothing
            actions += self.bring_about(DEPLOYMENTS, deployment, self.wanted_deployment(config))
            actions += self.bring_about(SERVICES, service, self.wanted_service())
            ready = self.progress(None if actions else deployment)

        plan = nothing
        if actions:
            plan.steps.append(r.Step(actions, r.Pace.TOGETHER, r.OnFailure.GO_ON))
        owned = deployment if standings[0] == "owned" else {}
        action = self.write_status(owned.get("status", {}).get("readyReplicas", 0), *ready)
        if action is not None:
            plan.steps.append(r.Step([action], r.Pace.TOGETHER, r.OnFailure.STOP))
        return plan

    # Reading.

    def get(self, which: int, name: str):
        ref = snapshot.get(self.request.resources[which], self.namespace, name)
        return None if ref is None else read(ref)

    def host_winner(self):
        """Metadata of the website to which this one's host belongs: the oldest."""
        if not self.host:
            return None
        resource = snapshot.ResourceSet_One(self.request.resources[WEBSITES])
        refs = snapshot.list(snapshot.Query(resource, None, snapshot.IndexMatch("host", [self.host]), None))
        claims = [json.loads(text)["metadata"] for text in snapshot.read(refs)]
        staying = [claim for claim in claims if "deletionTimestamp" not in claim]
        return min(staying, key=lambda c: (c["creationTimestamp"], c["namespace"], c["name"]), default=None)

    def still_there(self) -> bool:
        """Whether the website exists and is to stay, read past the cache: what is
        adopted by an owner that is gone would be collected."""
        for answer in self.request.answers:
            if answer.id != "still there":
                continue
            if not isinstance(answer.result, Err):
                return "deletionTimestamp" not in json.loads(answer.result.value)["metadata"]
            failure = answer.result.value
            if failure.status == 404:
                return False
            raise Retry(f"cannot read website {self.name}: {failure.message}")
        website = self.request.resources[WEBSITES]
        get = r.GetLookup(website, self.namespace, self.name, "", True, self.meta["uid"])
        raise AskFirst(r.Lookup("still there", r.Ask_Get(get)))

    # Deciding.

    def standing(self, found) -> str:
        """How something under the website's name stands to it."""
        if found is None:
            return "missing"
        meta = found["metadata"]
        owners = [owner for owner in meta.get("ownerReferences", []) if owner.get("controller")]
        if owners:
            return "owned" if owners[0]["uid"] == self.meta["uid"] else "foreign"
        ours = meta.get("labels", {}).get(LABEL) == self.name and "deletionTimestamp" not in meta
        return "orphan" if ours else "foreign"

    def labels(self) -> dict:
        return {LABEL: self.name}

    def wanted_deployment(self, config) -> dict:
        container = {
            "name": "web",
            "image": self.site["spec"]["image"],
            "ports": [{"containerPort": self.port}],
        }
        annotations = {}
        if config is not None:
            container["envFrom"] = [{"configMapRef": {"name": self.site["spec"]["config"]}}]
            annotations[CONFIG_HASH] = fnv(config.get("data") or {})
        template = {"metadata": {"annotations": annotations}, "spec": {"containers": [container]}}
        return {"replicas": self.replicas, "template": template}

    def wanted_service(self) -> dict:
        return {"selector": self.labels(), "ports": [{"name": "http", "port": 80, "targetPort": self.port}]}

    def progress(self, settled):
        """What there is to say while nothing is in the way. No Deployment is given
        while there is still something to write."""
        for tag in ("deployments", "services"):
            for result in self.request.results:
                failed = result.tag == tag and isinstance(result.result, r.ActionOutcome_Failed)
                # A conflict only says that the cache was behind; the next look settles it.
                if failed and result.result.value.status != 409:
                    return False, "WriteFailed", result.result.value.message
        status = (settled or {}).get("status", {})
        current = settled and status.get("observedGeneration", 0) >= settled["metadata"].get("generation", 0)
        if not current or status.get("updatedReplicas", 0) < self.replicas:
            return False, "Progressing", "being rolled out"
        count = status.get("readyReplicas", 0)
        message = f"{count} of {self.replicas} replicas are ready"
        return (True, "Available", message) if count >= self.replicas else (False, "Progressing", message)

    # Writing.

    def action(self, which: int, verb, tag: str, **more) -> r.Action:
        fields = dict(
            tag=tag,
            resource=self.request.resources[which],
            namespace=self.namespace,
            name=self.name,
            subresource="",
            verb=verb,
            precondition=r.Precondition_None_(),
            on_success=None,
            on_failure=None,
        )
        return r.Action(**(fields | more))

    def event(self, kind: r.EventKind, reason: str, message: str) -> r.Event:
        website = self.request.resources[WEBSITES]
        about = r.EventTarget(website, self.namespace, self.name, self.meta["uid"])
        return r.Event(about, kind, reason, message)

    def bring_about(self, which: int, found, wanted: dict) -> list:
        """The write that brings one object to what is wanted of it; none if it is so."""
        tag, kind = RESOURCES[which].resource, KINDS[which]
        owner = {
            "apiVersion": "demo.coxswain.dev/v1",
            "kind": "Website",
            "name": self.name,
            "uid": self.meta["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        standing = self.standing(found)
        if standing == "owned":
            change = diff(found.get("spec", {}), wanted)
            if not change:
                return []
            uid = r.Precondition_Uid(found["metadata"]["uid"])
            return [self.action(which, patch(r.PatchKind.MERGE, {"spec": change}), tag, precondition=uid)]
        if standing == "orphan":
            uid = r.Precondition_Uid(found["metadata"]["uid"])
            body = {"metadata": {"ownerReferences": [owner]}}
            return [self.action(which, patch(r.PatchKind.STRATEGIC, body), tag, precondition=uid)]
        if kind == "Deployment":
            # These never change, so they are given only here.
            wanted["selector"] = {"matchLabels": self.labels()}
            wanted["template"]["metadata"]["labels"] = self.labels()
        group = RESOURCES[which].group
        body = {
            "apiVersion": f"{group}/v1" if group else "v1",
            "kind": kind,
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "labels": self.labels(),
                "ownerReferences": [owner],
            },
            "spec": wanted,
        }
        created = self.event(r.EventKind.NORMAL, "Created", f"Created {kind} {{name}}")
        failed = self.event(r.EventKind.WARNING, "CreateFailed", f"{kind} {{name}}: {{message}}")
        verb = r.Verb_Create(json.dumps(body))
        return [self.action(which, verb, tag, on_success=created, on_failure=failed)]

    def write_status(self, ready_replicas: int, ready: bool, reason: str, message: str):
        """The patch of the status; None if it says all this already."""
        seen = {"observedGeneration": 0, "readyReplicas": 0, "conditions": []} | self.site.get("status", {})
        now = datetime.fromtimestamp(self.request.now.seconds, timezone.utc)
        condition = {
            "type": "Ready",
            "status": "True" if ready else "False",
            "reason": reason,
            "message": message,
            "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        conditions = list(seen["conditions"])
        places = [i for i, c in enumerate(conditions) if c["type"] == "Ready"]
        if places:
            before = conditions[places[0]]
            # The time moves only with the status.
            if before["status"] == condition["status"]:
                condition["lastTransitionTime"] = before["lastTransitionTime"]
            conditions[places[0]] = condition
        else:
            conditions.append(condition)
        wanted = {
            "observedGeneration": self.meta.get("generation", 0),
            "readyReplicas": ready_replicas,
            "conditions": conditions,
        }
        change = diff(seen, wanted)
        if not change:
            return None
        return self.action(WEBSITES, patch(r.PatchKind.MERGE, {"status": change}), "status", subresource="status")


def read(ref: ObjectRef) -> dict:
    return json.loads(snapshot.read([ref])[0])


def patch(kind: r.PatchKind, body: dict) -> r.Verb_Patch:
    return r.Verb_Patch(r.Patch(kind, json.dumps(body), "", False))


def diff(seen: dict, wanted: dict) -> dict:
    """The smallest merge patch (RFC 7386) that turns one into the other. A map that
    is empty is none: an API server drops it."""
    change = {field: None for field in seen if field not in wanted}
    for field, value in wanted.items():
        before = seen.get(field)
        if isinstance(before, dict | None) and isinstance(value, dict):
            if inner := diff(before or {}, value):
                change[field] = inner
        elif before != value:
            change[field] = value
    return change


def fnv(data: dict) -> str:
    """FNV-1a over keys and values, each with a zero byte after it."""
    value = 0x811C9DC5
    for key in sorted(data):
        for byte in f"{key}\0{data[key]}\0".encode():
            value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return f"{value:08x}"
