"""Suites of clients in Python."""

from __future__ import annotations

from tools.foreign_suites.results import junit
from tools.foreign_suites.sources import debian, pypi
from tools.foreign_suites.suite import Certificates, Suite

PYTEST = "$PYTHON -m pytest -q -p no:cacheprovider --timeout 120 --junitxml=$REPORT"
FILES = "ls tests/test_*.py"
DOCKER = {"docker_client.py": "tests/docker_client.py"}
OUR_CERTIFICATES = Certificates(
    "certificates/ca_certificate.pem",
    "certificates/server_certificate.pem",
    "certificates/server_key.pem",
)
MAKE_CERTIFICATES = "bash $STAND_INS/certificates.sh certificates"

PYTHON_SUITES = [
    Suite(
        name="pika",
        version="1.3.2",
        language="Python",
        about="`tests/acceptance`: blocking, select, asyncio, gevent and tornado connections",
        source=debian(
            "python-pika",
            "python-pika_1.3.2.orig.tar.gz",
            "5eb71b9a0047c77d99378e525a2041fc50aae4a177b060f9825b3e2fdcc96fc4",
        ),
        # Its folders are no packages; another package "tests" in the environment would win.
        prepare="touch tests/__init__.py",
        # The tests of the Twisted connection need nose, which Python 3.11 does not run.
        command=f"{PYTEST} -o python_files='*test*.py' --ignore-glob='*twisted*' tests/acceptance",
        read=junit,
    ),
    Suite(
        name="pika-tls",
        version="1.3.2",
        language="Python",
        about="the asynchronous part of the same with `PIKA_TEST_TLS=true`",
        source=debian(
            "python-pika",
            "python-pika_1.3.2.orig.tar.gz",
            "5eb71b9a0047c77d99378e525a2041fc50aae4a177b060f9825b3e2fdcc96fc4",
        ),
        prepare="touch tests/__init__.py; bash $STAND_INS/certificates.sh testdata/certs",
        certificates=Certificates(
            "testdata/certs/ca_certificate.pem",
            "testdata/certs/server_certificate.pem",
            "testdata/certs/server_key.pem",
        ),
        environment={"PIKA_TEST_TLS": "true"},
        command=f"{PYTEST} tests/acceptance/async_adapter_tests.py",
        read=junit,
    ),
    Suite(
        name="aio-pika",
        version="10.2.1",
        language="Python",
        about="all tests; its Docker container is the broker here",
        source=pypi("aio_pika", "10.2.1", "e4f77afd9179a3cca5a904c3b0a1190256a36d9f90650db908b1b2245eb27487"),
        files=DOCKER,
        prepare=MAKE_CERTIFICATES,
        certificates=OUR_CERTIFICATES,
        tests=FILES,
        command=f"{PYTEST} $TESTS",
        read=junit,
        minutes_max=30,
    ),
    Suite(
        name="aiormq",
        version="7.2.4",
        language="Python",
        about="all tests, each over TCP and over TLS in three ways",
        source=pypi("aiormq", "7.2.4", "5fd20bb9583d73de85572198496b65cf028f27527c1733c9840d458e0b40e8fa"),
        files={"aiormq_fixtures.py": "conftest.py"},
        certificates=Certificates("tests/certs/ca.pem", "tests/certs/server.pem", "tests/certs/server.key"),
        tests=FILES,
        command=f"{PYTEST} $TESTS",
        read=junit,
    ),
    Suite(
        name="py-amqp",
        version="5.4.2",
        language="Python",
        about="`t/integration`, over TCP and TLS",
        source=pypi("amqp", "5.4.2", "9362660c4a31150cf18e78cae2ce8aa1e929fc6c6739e69f6dd5dbea9c3edc82"),
        prepare="bash $STAND_INS/certificates.sh t/certs",
        certificates=Certificates(
            "t/certs/ca_certificate.pem", "t/certs/server_certificate.pem", "t/certs/server_key.pem"
        ),
        command=f"{PYTEST} t/integration",
        read=junit,
        differences={"*::test_publish_consume[[]*-True]": "`immediate` works in EmberMQ"},
    ),
    Suite(
        name="kombu",
        version="5.7.0",
        language="Python",
        about="`t/integration/test_py_amqp.py`",
        source=pypi("kombu", "5.7.0", "31e62fdfd2381caa3422f8e02b84a491d9a2180ddda74507b57f4cb1e1c2c2c9"),
        command=f"{PYTEST} t/integration/test_py_amqp.py",
        read=junit,
    ),
    Suite(
        name="amqpstorm",
        version="3.1.4",
        language="Python",
        about="`tests/functional`: the client, and the management API (49 tests)",
        source=pypi("amqpstorm", "3.1.4", "8c4c81430b3e3f06c88474a8ed883b48a62068f14490e339d6e0fc3329f030d3"),
        prepare=MAKE_CERTIFICATES,
        certificates=OUR_CERTIFICATES,
        environment={
            "AMQP_HOST": "127.0.0.1",
            "AMQP_USERNAME": "guest",
            "AMQP_PASSWORD": "guest",
            "AMQP_URI": "amqp://guest:guest@127.0.0.1:5672/%2F",
            "AMQP_SSL_URI": "amqps://guest:guest@localhost:5671/%2F",
            "AMQP_SSL_HOST": "localhost",
            "AMQP_CAFILE": "certificates/ca_certificate.pem",
            "AMQP_CERTFILE": "certificates/client_certificate.pem",
            "AMQP_KEYFILE": "certificates/client_key.pem",
            "AMQP_HTTP_URL": "http://127.0.0.1:15672",
        },
        command=f"{PYTEST} amqpstorm/tests/functional",
        read=junit,
    ),
    Suite(
        name="rabbitpy",
        version="3.0.2",
        language="Python",
        about="all tests, among them `tests/integration`",
        source=pypi("rabbitpy", "3.0.2", "9322a1e82b4d3d1afc21a617ce0b1e86b921174328735e7d54abc9525805ae5c"),
        environment={"RABBITMQ_URL": "amqp://guest:guest@127.0.0.1:5672/%2f"},
        command=f"{PYTEST} tests",
        read=junit,
    ),
]
