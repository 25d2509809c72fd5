import os
import socket
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makemar.configs import ServerConfig
from makemar.errors import ServingError
from makemar.serving.addresses import check_ports, server_addresses, with_free_ports, with_ports


def test_a_configuration_without_addresses_has_torchserves():
    addresses = server_addresses(ServerConfig())
    assert addresses.inference == "http://127.0.0.1:8080"
    assert addresses.management == "http://127.0.0.1:8081"
    assert addresses.metrics == "http://127.0.0.1:8082"
    assert addresses.grpc_inference == "127.0.0.1:7070"
    assert addresses.grpc_management == "127.0.0.1:7071"


@given(st.integers(1, 65535), st.sampled_from(["127.0.0.1", "localhost", "10.1.2.3"]))
def test_an_address_is_reached_where_it_says(port: int, host: str):
    config = ServerConfig(inference_address=f"http://{host}:{port}", grpc_inference_port=port)
    addresses = server_addresses(config)
    assert addresses.inference == f"http://{host}:{port}"
    assert addresses.grpc_inference == f"127.0.0.1:{port}"


def test_an_address_without_a_port_has_the_one_of_its_scheme():
    config = ServerConfig(inference_address="http://10.1.2.3", metrics_address="https://10.1.2.3")
    addresses = server_addresses(config)
    assert addresses.inference == "http://10.1.2.3:80"
    assert addresses.metrics == "https://10.1.2.3:8445"


def test_a_server_for_everybody_is_reached_on_this_machine():
    config = ServerConfig(inference_address="http://0.0.0.0:80", grpc_inference_address="0.0.0.0")
    assert server_addresses(config).inference == "http://127.0.0.1:80"
    assert server_addresses(config).grpc_inference == "127.0.0.1:7070"


def test_a_unix_socket_is_refused():
    with pytest.raises(ServingError, match="inference_address 'unix:/tmp/s' cannot be reached"):
        server_addresses(ServerConfig(inference_address="unix:/tmp/s"))


def test_free_ports_are_five_and_free_and_change_nothing_else():
    config = ServerConfig(job_queue_size=7, inference_address="http://0.0.0.0:8080")
    free = with_free_ports(config)
    assert free.job_queue_size == 7
    assert free.inference_address is not None
    assert free.inference_address.startswith("http://0.0.0.0:")
    addresses = server_addresses(free)
    ports = {text.rpartition(":")[2] for text in vars(addresses).values()}
    assert len(ports) == 5
    check_ports(free)


def test_ports_in_a_row_change_nothing_else():
    config = ServerConfig(job_queue_size=7, management_address="https://0.0.0.0:8444")
    moved = with_ports(config, 9000)
    assert moved == replace(
        config,
        inference_address="http://127.0.0.1:9000",
        management_address="https://0.0.0.0:9001",
        metrics_address="http://127.0.0.1:9002",
        grpc_inference_port=9003,
        grpc_management_port=9004,
    )
    for first in (0, -1, 65532):
        with pytest.raises(ServingError, match=f"no ports {first} to"):
            with_ports(config, first)


@pytest.mark.parametrize(
    "key",
    [
        "inference_address",
        "management_address",
        "metrics_address",
        "grpc_inference_port",
        "grpc_management_port",
    ],
)
def test_a_busy_port_is_told_with_its_key_and_its_holder(key: str):
    free = with_free_ports(ServerConfig())
    value = getattr(free, key)
    port = value if isinstance(value, int) else int(value.rpartition(":")[2])
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        with pytest.raises(ServingError) as caught:
            check_ports(free)
    assert f"port {port} ({key}) is in use by " in str(caught.value)
    assert f"(pid {os.getpid()})" in str(caught.value)
    check_ports(free)


def test_both_apis_on_one_address_are_allowed():
    free = with_free_ports(ServerConfig())
    merged = ServerConfig(
        inference_address=free.inference_address,
        management_address=free.inference_address,
        metrics_address=free.metrics_address,
        grpc_inference_port=free.grpc_inference_port,
        grpc_management_port=free.grpc_management_port,
    )
    check_ports(merged)


def test_a_grpc_port_that_another_address_has_is_refused():
    free = with_free_ports(ServerConfig())
    port = free.grpc_inference_port
    with pytest.raises(ServingError, match=f"grpc_management_port {port} is taken"):
        check_ports(replace(free, grpc_management_port=port))


def test_an_address_of_another_machine_is_refused():
    config = with_free_ports(ServerConfig())
    config = ServerConfig(
        inference_address="http://192.0.2.1:9999",
        management_address=config.management_address,
        metrics_address=config.metrics_address,
    )
    with pytest.raises(ServingError, match=r"cannot listen on 192\.0\.2\.1:9999"):
        check_ports(config)
