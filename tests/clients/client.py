"""The official Python client as a judge of the embedded cluster.

Usage: client.py KUBECONFIG, against a cluster in which the deployment controllers run. It prints nothing and exits with 0,
or fails with what did not hold.
"""

import sys
import time

from kubernetes import client, config, dynamic, watch
from kubernetes.client.exceptions import ApiException

config.load_kube_config(sys.argv[1])
core, apps = client.CoreV1Api(), client.AppsV1Api()
NAMESPACE = "python"


def refused(code, call, *args, **kwargs):
    """The refusal of a call that must be refused with this code."""
    try:
        call(*args, **kwargs)
    except ApiException as error:
        assert error.status == code, (error.status, error.body)
        return error
    raise AssertionError(f"{call.__name__} was not refused")


def until(what, holds):
    for _ in range(300):
        if holds():
            return
        time.sleep(0.1)
    raise AssertionError(f"still not: {what}")


def deployment(name, replicas):
    labels = {"app": name}
    container = client.V1Container(name="c", image="i:1", resources={"requests": {"cpu": "0.5"}})
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels=labels), spec=client.V1PodSpec(containers=[container])
    )
    return client.V1Deployment(
        metadata=client.V1ObjectMeta(name=name),
        spec=client.V1DeploymentSpec(
            replicas=replicas, selector=client.V1LabelSelector(match_labels=labels), template=template
        ),
    )


def objects():
    """Create, conflict, update with a stale version, patches, selectors, pages."""
    for number in range(5):
        meta = client.V1ObjectMeta(name=f"map-{number}", labels={"odd": str(number % 2)})
        core.create_namespaced_config_map(NAMESPACE, client.V1ConfigMap(metadata=meta, data={"k": "v"}))
    refused(409, core.create_namespaced_config_map, NAMESPACE, client.V1ConfigMap(metadata=meta))
    refused(404, core.read_namespaced_config_map, "none", NAMESPACE)
    stale = core.read_namespaced_config_map("map-0", NAMESPACE)
    core.patch_namespaced_config_map("map-0", NAMESPACE, {"data": {"k": "w", "l": "m"}})
    stale.data = {}
    refused(409, core.replace_namespaced_config_map, "map-0", NAMESPACE, stale)
    assert core.read_namespaced_config_map("map-0", NAMESPACE).data == {"k": "w", "l": "m"}
    odd = core.list_namespaced_config_map(NAMESPACE, label_selector="odd=1").items
    assert [o.metadata.name for o in odd] == ["map-1", "map-3"], odd
    names, token = [], None
    while True:
        page = core.list_namespaced_config_map(NAMESPACE, limit=2, _continue=token)
        names += [o.metadata.name for o in page.items]
        token = page.metadata._continue
        if not token:
            break
    assert names == [f"map-{n}" for n in range(5)], names
    refused(422, apps.create_namespaced_deployment, NAMESPACE, deployment("Bad_Name", 1))


def rollout():
    """A deployment: its pods come, it is watched, scaled and deleted with its dependents."""
    apps.create_namespaced_deployment(NAMESPACE, deployment("web", 2))
    version = core.list_namespaced_pod(NAMESPACE).metadata.resource_version

    def ready(count):
        status = apps.read_namespaced_deployment("web", NAMESPACE).status
        return (status.ready_replicas or 0) == count

    until("two pods are ready", lambda: ready(2))
    pods = core.list_namespaced_pod(NAMESPACE, field_selector="status.phase=Running").items
    assert len(pods) == 2 and pods[0].spec.containers[0].resources.requests == {"cpu": "500m"}, pods
    scale = apps.read_namespaced_deployment_scale("web", NAMESPACE)
    scale.spec.replicas = 3
    apps.replace_namespaced_deployment_scale("web", NAMESPACE, scale)
    until("a third pod is ready", lambda: ready(3))
    added = set()
    stream = watch.Watch().stream(
        core.list_namespaced_pod, NAMESPACE, resource_version=version, timeout_seconds=2
    )
    for event in stream:
        if event["type"] == "ADDED":
            added.add(event["object"].metadata.name)
    now = {pod.metadata.name for pod in core.list_namespaced_pod(NAMESPACE).items}
    assert now <= added | {pod.metadata.name for pod in pods}, (now, added)
    apps.delete_namespaced_deployment("web", NAMESPACE, propagation_policy="Foreground")
    until("all pods are gone", lambda: not core.list_namespaced_pod(NAMESPACE).items)


def custom():
    """A resource of one's own, by the dynamic client, also with server-side apply."""
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1}}}},
    }
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "boats", "singular": "boat", "kind": "Boat"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }
    client.ApiextensionsV1Api().create_custom_resource_definition(definition)

    def found():
        try:
            return dynamic.DynamicClient(client.ApiClient()).resources.get(
                api_version="example.com/v1", kind="Boat"
            )
        except dynamic.exceptions.ResourceNotFoundError:
            return None

    until("the resource is discovered", found)
    boats = found()

    def boat(size):
        return {
            "apiVersion": "example.com/v1",
            "kind": "Boat",
            "metadata": {"name": "a", "namespace": NAMESPACE},
            "spec": {"size": size},
        }

    boats.server_side_apply(body=boat(3), namespace=NAMESPACE, name="a", field_manager="one")
    assert boats.get(name="a", namespace=NAMESPACE).spec.size == 3
    try:
        boats.server_side_apply(body=boat(4), namespace=NAMESPACE, name="a", field_manager="two")
        raise AssertionError("two managers own one field")
    except dynamic.exceptions.ConflictError:
        pass
    refused(422, boats.create, body={**boat(0), "metadata": {"name": "b"}}, namespace=NAMESPACE)
    boats.delete(name="a", namespace=NAMESPACE)


core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=NAMESPACE)))
until(
    "its namespace is active", lambda: core.read_namespace(NAMESPACE).status.phase == "Active"
)
objects()
rollout()
custom()
