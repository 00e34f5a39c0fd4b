"""In place of the Docker client of aio-pika and aiormq: the "container" is the broker that runs already."""

from dataclasses import dataclass


class DockerNotAvailableError(Exception):
    pass


@dataclass
class DockerHostInfo:
    container_host: str = "localhost"


@dataclass
class ContainerInfo:
    id: str
    ports: dict[str, int]
    host: str


def check_docker_available() -> DockerHostInfo:
    return DockerHostInfo()


class DockerClient:
    def __init__(self, docker_host_info: DockerHostInfo | None = None) -> None:
        pass

    def run(self, image: str, ports: list[str], environment: dict[str, str] | None = None) -> ContainerInfo:
        return ContainerInfo("the-broker", {port: int(port.partition("/")[0]) for port in ports}, "localhost")

    def kill(self, container_id: str) -> None:
        pass

    def remove(self, container_id: str) -> None:
        pass
