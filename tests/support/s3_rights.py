"""Users of moto's S3 server who may do less than everything; moto then checks signatures and policies, as IAM does."""

from __future__ import annotations

import json
import urllib.request
from dataclasses import replace
from typing import Any

from devstack.s3 import S3Server

EVERYTHING, READ = ("s3:*",), ("s3:Get*", "s3:List*")


def with_rights(server: S3Server, *actions: str, to: str = "*") -> S3Server:
    """Return the server, by a new user with these rights and no others, such as ``s3:Get*``.

    :param server: moto, before it is told to `check_rights`.
    :param to: the objects that this is about, such as ``arn:aws:s3:::bucket/*``; default: all.
    """
    iam, name = _iam(server), f"user-{'-'.join(actions) or 'nobody'}".replace(":", "-").replace("*", "all")
    iam.create_user(UserName=name)
    if actions:
        policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": list(actions), "Resource": to}]}
        iam.put_user_policy(UserName=name, PolicyName="rights", PolicyDocument=json.dumps(policy))
    key = iam.create_access_key(UserName=name)["AccessKey"]
    return replace(server, login=key["AccessKeyId"], password=key["SecretAccessKey"])


def check_rights(server: S3Server) -> None:
    """From now on nobody but the users of `with_rights` may do anything, and these no more than they may."""
    address = f"{server.endpoint}/moto-api/reset-auth"
    request = urllib.request.Request(address, data=b"0", headers={"Content-Type": "text/plain"})
    urllib.request.urlopen(request, timeout=60).close()


def _iam(server: S3Server) -> Any:
    import boto3

    keys = {"aws_access_key_id": server.login, "aws_secret_access_key": server.password}
    return boto3.client("iam", endpoint_url=server.endpoint, region_name=server.region, **keys)
