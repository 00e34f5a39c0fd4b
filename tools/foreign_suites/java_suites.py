"""The suite of RabbitMQ's own Java client, which is also the oldest suite of RabbitMQ itself."""

from __future__ import annotations

from collections.abc import Mapping

from tools.foreign_suites.results import junit
from tools.foreign_suites.sources import debian
from tools.foreign_suites.suite import Suite

TESTS = "src/test/java/com/rabbitmq/client/test"
JARS = ":".join(
    f"/usr/share/java/{name}.jar"
    for name in ("amqp-client", "junit4", "hamcrest-all", "mockito-core", "slf4j-api", "commons-cli")
)
# Files that gather others, and one that needs a library which Debian does not have (awaitility).
LEFT_OUT = (
    "functional/Metrics functional/FunctionalTests server/ServerTests ssl/SSLTests ClientTests HATests "
    "StandardMetricsCollectorTest server/AbsentQueue server/EffectVisibilityCrossNodeTest"
)
PREPARE = f"""
for name in {LEFT_OUT}; do rm -f {TESTS}/$name.java; done
cp $STAND_INS/HATests.java {TESTS}/server/
mkdir -p classes
find {TESTS}/functional {TESTS}/server {TESTS}/*.java src/test/java/com/rabbitmq/tools -name '*.java' > files
javac -nowarn -d classes -cp {JARS} -sourcepath src/test/java @files $STAND_INS/RunTests.java
printf '#!/bin/sh\\nexec python3 %s/make.py "$@"\\n' $STAND_INS > make-stand-in
chmod +x make-stand-in
"""
PROPERTIES = (
    "-Dtest-broker.A.nodename=$RABBITMQ_NODENAME -Dtest-broker.A.node_port=5672 "
    "-Dtest-broker.A.config_file=none -Drabbitmqctl.bin=$RABBITMQ_RABBITMQCTL_PATH "
    "-Dmake.bin=$PWD/make-stand-in -Drabbitmq.dir=. -Dbroker.hostname=localhost -Dbroker.port=5672"
)
CLASSES = (
    "cd {folder} && grep -l '@Test' {only} | xargs grep -L 'abstract class' | grep -v {without} | sort "
    "| sed 's|^|{package}.|; s|[.]java$||'"
)
METHODS = "cd {folder} && grep -oh '@Test public void [A-Za-z0-9]*' {only} | sed 's|.* |{package}.{stem}#|'"


def java(
    name: str,
    about: str,
    folder: str,
    only: str = "*.java",
    without: str = "none",
    each: str = CLASSES,  # what can be run by itself
    differences: Mapping[str, str] | None = None,
) -> Suite:
    package = folder.removeprefix("src/test/java/").replace("/", ".")
    return Suite(
        name=name,
        version="5.0.0",
        language="Java",
        about=about,
        source=debian(
            "rabbitmq-java-client",
            "rabbitmq-java-client_5.0.0.orig.tar.gz",
            "23c185a4b241c60223e8a800472d674f3d8e8fc5688bf99abe6ccdfd55e64aeb",
        ),
        packages=(
            "librabbitmq-client-java",
            "junit4",
            "libhamcrest-java",
            "libmockito-java",
            "libcommons-cli-java",
            "default-jdk-headless",
        ),
        prepare=PREPARE,
        command=f"java {PROPERTIES} -cp classes:{JARS} RunTests $REPORT $TESTS",
        tests=each.format(
            folder=folder, package=package, only=only, without=without, stem=only.removesuffix(".java")
        ),
        read=junit,
        minutes_max=25,
        differences=differences or {},
    )


JAVA_SUITES = [
    java(
        "java-functional",
        "`functional`: what RabbitMQ promises to clients",
        f"{TESTS}/functional",
        without="ConnectionRecovery",
        differences={
            "*QosTests::messageLimitPrefetchSizeFails": "`prefetch-size` works in EmberMQ",
            "*QosTests::noAckObeysLimit": "AMQP: a prefetch limit is not for consumers without acks",
            "*Recover::requeueFalseNotSupported": "`recover` without requeue works in EmberMQ",
            "*Routing::basicReturn": "`immediate` works in EmberMQ",
            "*UnexpectedFrames::heartbeatOnChannel": "501, as AMQP says; RabbitMQ answers 505",
            "*FrameMax::rejectLargeFramesDuringConnectionNegotiation": "tokens are longer than 4 KiB",
        },
    ),
    java(
        "java-recovery",
        "`functional/ConnectionRecovery`: the broker is restarted, connections are closed",
        f"{TESTS}/functional",
        only="ConnectionRecovery.java",
        each=METHODS,
    ),
    java(
        "java-server",
        "`server`: restarts, alarms, permissions, firehose",
        f"{TESTS}/server",
        without="-e Bug19219Test",
        differences={
            "*ChannelLimitNegotiation::*": "sets `channel_max` by `rabbitmqctl eval`, in Erlang",
            "*Permissions::passiveDeclaration": "as in RabbitMQ 4.2.7, who looks must have some right",
        },
    ),
    java(
        "java-flood",
        "`server/Bug19219Test`: a hundred publishers that never stop, 1,500 queues each",
        f"{TESTS}/server",
        only="Bug19219Test.java",
    ),
    java("java-client", "the tests of the client itself", TESTS),
]
