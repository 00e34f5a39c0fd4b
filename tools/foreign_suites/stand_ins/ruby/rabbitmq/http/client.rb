# In place of the gem rabbitmq_http_api_client, which Debian does not have: what Bunny's tests use of it.
require "json"
require "net/http"
require "uri"

module RabbitMQ
  module HTTP
    class Thing < Hash
      def method_missing(name, *)
        key?(name.to_s) ? self[name.to_s] : super
      end

      def respond_to_missing?(name, include_private = false)
        key?(name.to_s) || super
      end
    end

    class Client
      def initialize(address)
        @address = address
      end

      def list_connections
        list("connections")
      end

      def list_channels
        list("channels")
      end

      def list_queues(vhost = nil)
        list(["queues", vhost])
      end

      def list_exchanges(vhost = nil)
        list(["exchanges", vhost])
      end

      def close_connection(name)
        call(Net::HTTP::Delete, ["connections", name])
      end

      private

      def list(path)
        JSON.parse(call(Net::HTTP::Get, Array(path)).body).map { |row| Thing.new.merge!(row) }
      end

      def call(kind, path)
        parts = path.compact.map { |part| URI.encode_www_form_component(part).gsub("+", "%20") }
        uri = URI("#{@address}/api/#{parts.join("/")}")
        request = kind.new(uri)
        request.basic_auth("guest", "guest")
        Net::HTTP.start(uri.host, uri.port) { |http| http.request(request) }
      end
    end
  end
end
