"""Suites of clients in Go, JavaScript, PHP and Ruby."""

from __future__ import annotations

from tools.foreign_suites.results import go, junit, rspec
from tools.foreign_suites.sources import debian, npm
from tools.foreign_suites.suite import Certificates, Suite

NPM = "npm install --silent --no-audit --no-fund --ignore-scripts"
RUN_MOCHA = "node_modules/.bin/mocha --exit --reporter xunit --reporter-option output=$REPORT"
PHPUNIT = "phpunit --log-junit $REPORT"
COUNTS_ACKS = "counts acks, and waits for ever where one ack confirms two messages (`multiple`)"

OTHER_SUITES = [
    Suite(
        name="amqp091-go",
        version="1.14.0",
        language="Go",
        about="all tests with the tag `integration`; recovery is tested through the management API",
        source=debian(
            "golang-github-rabbitmq-amqp091-go",
            "golang-github-rabbitmq-amqp091-go_1.14.0.orig.tar.xz",
            "d8c2c2c81e2ba56d64158517ccbd477ae78d303049096668270ce6bbcfa516e5",
        ),
        packages=("golang-go", "golang-uber-goleak-dev"),
        # Debian's goleak in place of a download; and one test that cannot imagine a broker with flow control.
        prepare="""
            cp -rL /usr/share/gocode/src/go.uber.org/goleak goleak
            rm -f goleak/*_test.go go.sum
            printf 'module go.uber.org/goleak\\ngo 1.18\\n' > goleak/go.mod
            sed -i 's/^go 1.20/go 1.19/' go.mod
            echo 'replace go.uber.org/goleak => ./goleak' >> go.mod
            sed -i 's/:= sub.Flow(false); err.(/:= sub.Flow(false); err != nil \\&\\& err.(/' *_test.go
        """,
        environment={"GOFLAGS": "-mod=mod", "GOPROXY": "off"},
        command="go test -count=1 -v -tags integration -json .",
        read=go,
        minutes_max=15,
        differences={"TestIntegrationPublishImmediate": "`immediate` works in EmberMQ"},
    ),
    Suite(
        name="amqplib",
        version="0.10.9",
        language="JavaScript",
        about="all tests (the last version that ships them)",
        source=npm("amqplib", "0.10.9", "f3102ba19abf66322e179f236756ecd8c7c835c2f7d56ab3236c7fc7572b7357"),
        prepare=f"{NPM} --omit=dev; {NPM} --no-save claire@0.4.1 mocha@9.2.2",
        command=f"{RUN_MOCHA} -u tdd --timeout 20000 test",
        read=junit,
        differences={"Connect API::serverProperties": "looks for the product RabbitMQ"},
    ),
    Suite(
        name="rascal",
        version="4.7.0",
        language="JavaScript",
        about="all tests; virtual hosts are made and deleted through the management API",
        source=npm("rascal", "4.7.0", "4f78f5dc89d22a6edfc547edfbe58c0d80cc8860a8e0597db17cc256fdde4322"),
        prepare=f"{NPM} --omit=dev; {NPM} --no-save amqplib@0.5.6 chance@1.1.12 mocha@9.2.2",
        tests="find test -name '*.tests.js' | sort",
        command=f"{RUN_MOCHA} --no-opts --timeout 20000 $TESTS",
        read=junit,
        minutes_max=15,
    ),
    Suite(
        name="php-amqplib",
        version="3.7.3",
        language="PHP",
        about="all tests without Toxiproxy",
        source=debian(
            "php-amqplib",
            "php-amqplib_3.7.3.orig.tar.xz",
            "d7b858c32a6347b30db9807d17889f636d6497168fb83076a149b662c38b9203",
        ),
        packages=(
            "php-cli",
            "php-mbstring",
            "php-bcmath",
            "php-curl",
            "php-xml",
            "phpunit",
            "php-phpseclib3",
        ),
        # Composer's autoloader, by hand.
        prepare="""
            mkdir -p vendor
            cat > vendor/autoload.php <<'PHP'
<?php
spl_autoload_register(function ($class) {
    $tests = 'PhpAmqpLib\\\\Tests\\\\';
    $path = strpos($class, $tests) === 0 ? 'tests/' . substr($class, strlen($tests)) : $class;
    $file = __DIR__ . '/../' . str_replace('\\\\', '/', $path) . '.php';
    if (is_file($file)) { require $file; }
});
@include 'phpseclib3/autoload.php';
PHP
            sed -i '/<logging>/,/<[/]logging>/d; /<filter>/,/<[/]filter>/d' phpunit.xml.dist
        """,
        certificates=Certificates(
            "tests/certs/ca_certificate.pem",
            "tests/certs/server_certificate.pem",
            "tests/certs/server_key.pem",
        ),
        command=f"{PHPUNIT} --exclude-group proxy",
        read=junit,
    ),
    Suite(
        name="php-amqp",
        version="1.11.0",
        language="PHP",
        about="all tests of the extension (`.phpt`)",
        source=debian(
            "php-amqp",
            "php-amqp_1.11.0.orig.tar.gz",
            "dc5212b4785f59955118a219bbfbcedb7aa6ab2a91e8038a0ad1898f331c2f08",
        ),
        packages=("php-cli", "php-amqp", "phpunit"),
        prepare="rm tests/amqpexchange_publish_confirms.phpt",
        left_out={"amqpexchange_publish_confirms.phpt": COUNTS_ACKS},
        command=f"cd tests; {PHPUNIT} --no-configuration --test-suffix .phpt .",
        read=junit,
        differences={
            "tests/bug_gh155_direct_reply_to.phpt": "looks for the form of RabbitMQ's names for replies",
            "tests/bug_gh53.phpt": "`prefetch-size` works in EmberMQ",
        },
    ),
    Suite(
        name="bunny",
        version="2.23.0",
        language="Ruby",
        about="all integration tests without Toxiproxy; recovery is tested through the management API",
        source=debian(
            "ruby-bunny",
            "ruby-bunny_2.23.0.orig.tar.gz",
            "620a89c2c3d3455a048e3d09e4dfd6f444feb972e8a8e89691cbbd3ada79ff81",
        ),
        packages=("ruby", "ruby-bunny", "ruby-rspec"),
        prepare="""
            sed -i '/bundler/d; /Bundler/d' spec/spec_helper.rb
            sed -i '1i require "rabbitmq/http/client"' spec/spec_helper.rb
            rm -f spec/higher_level_api/integration/toxiproxy_spec.rb
            bash $STAND_INS/certificates.sh spec/tls
        """,
        certificates=Certificates(
            "spec/tls/ca_certificate.pem", "spec/tls/server_certificate.pem", "spec/tls/server_key.pem"
        ),
        environment={
            "BUNNY_RABBITMQCTL": "rabbitmqctl",
            "BUNNY_RABBITMQ_PLUGINS": "true",
            "LANG": "C.UTF-8",
        },
        setting_up="sh bin/ci/before_build.sh || true",
        command="rspec -I lib -I spec -I $STAND_INS/ruby --format json --out $REPORT --format documentation "
        "$TESTS",
        tests="find spec/higher_level_api spec/lower_level_api spec/issues -name '*_spec.rb' | sort",
        read=rspec,
        minutes_max=15,
        differences={
            "*recovers passively declared exchanges and their bindings]": "publishes when the API lists the "
            "connection, which tells at once here, and before Bunny has bound again"
        },
    ),
]
