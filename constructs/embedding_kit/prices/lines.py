"""The lines of AWS's price list that the kit uses: each one's unit, and where AWS publishes it.

A usage type is written without the region's prefix (`EUC1-` and others; us-east-1 often has none).
Format: https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/reading-service-price-list-file-for-services.html
"""

from dataclasses import dataclass

__all__ = ["LINES", "PriceLine"]


@dataclass(frozen=True, slots=True)
class PriceLine:
    """One line of the price list.

    Attributes:
        unit: The unit of one price.
        offer: The service's code in AWS's price list; empty for a price that it does not have.
        usage_type: The usage type without the region's prefix.
        operation: The operation, where several products share a usage type.
    """

    unit: str
    offer: str = ""
    usage_type: str = ""
    operation: str = ""


def _lambda(unit: str, usage_type: str) -> PriceLine:
    return PriceLine(unit, "AWSLambda", usage_type)


def _cloudwatch(unit: str, usage_type: str) -> PriceLine:
    return PriceLine(unit, "AmazonCloudWatch", usage_type)


def _instance(name: str) -> PriceLine:
    return PriceLine("hour", "AmazonEC2", f"BoxUsage:{name}", "RunInstances")


def _balancer(unit: str, usage_type: str) -> PriceLine:
    return PriceLine(unit, "AWSELB", usage_type, "LoadBalancing:Application")


#: The lines by their name. All of Lambda and Fargate are on ARM64.
LINES: dict[str, PriceLine] = {
    "lambda_duration": _lambda("GB-second", "Lambda-GB-Second-ARM"),
    "lambda_requests": _lambda("request", "Request-ARM"),
    "lambda_provisioned": _lambda("GB-second", "Lambda-Provisioned-Concurrency-ARM"),
    "lambda_provisioned_duration": _lambda("GB-second", "Lambda-Provisioned-GB-Second-ARM"),
    "lambda_snapshot": _lambda("GB-second", "Lambda-SnapStart-Cached-GB-S"),
    "lambda_restore": _lambda("GB", "Lambda-SnapStart-Restored-GB"),
    "managed_c7g_large": PriceLine("hour"),
    "fargate_vcpu": PriceLine("vCPU-hour", "AmazonECS", "Fargate-ARM-vCPU-Hours:perCPU"),
    "fargate_memory": PriceLine("GB-hour", "AmazonECS", "Fargate-ARM-GB-Hours"),
    "ec2_t4g_small": _instance("t4g.small"),
    "ec2_t4g_medium": _instance("t4g.medium"),
    "ec2_c7g_large": _instance("c7g.large"),
    "ec2_t4g_credits": PriceLine("vCPU-hour", "AmazonEC2", "CPUCredits:t4g"),
    "ec2_disk": PriceLine("GB-month", "AmazonEC2", "EBS:VolumeUsage.gp3"),
    "load_balancer": _balancer("hour", "LoadBalancerUsage"),
    "load_balancer_capacity": _balancer("LCU-hour", "LCUUsage"),
    "rest_requests": PriceLine("request"),
    "firewall": PriceLine("web-ACL-month"),
    "firewall_rule": PriceLine("rule-month"),
    "firewall_requests": PriceLine("request"),
    "public_ipv4": PriceLine("hour", "AmazonVPC", "PublicIPv4:InUseAddress"),
    "interface_endpoint": PriceLine("hour", "AmazonVPC", "VpcEndpoint-Hours", "VpcEndpoint"),
    "interface_endpoint_data": PriceLine("GB", "AmazonVPC", "VpcEndpoint-Bytes", "VpcEndpoint"),
    "image_storage": PriceLine("GB-month", "AmazonECR", "TimedStorage-ByteHrs"),
    "log_ingestion": _cloudwatch("GB", "DataProcessing-Bytes"),
    "log_storage": _cloudwatch("GB-month", "TimedStorage-ByteHrs"),
    "metric": _cloudwatch("metric-month", "CW:MetricMonitorUsage"),
    "alarm": _cloudwatch("alarm metric-month", "CW:AlarmMonitorUsage"),
    "composite_alarm": _cloudwatch("alarm-month", "CW:CompositeAlarmMonitorUsage"),
    # The same in every region, so it is in no region's file.
    "dashboard": PriceLine("dashboard-month"),
    "traces": PriceLine("trace"),
    "key": PriceLine("key-month", "awskms", "KMS-Keys"),
    "storage": PriceLine("GB-month", "AmazonS3", "TimedStorage-ByteHrs"),
    "storage_write": PriceLine("request", "AmazonS3", "Requests-Tier1"),
    "storage_read": PriceLine("request", "AmazonS3", "Requests-Tier2"),
    "vector_storage": PriceLine("GB-month"),
    "vector_writes": PriceLine("GB"),
    "vector_searches": PriceLine("request"),
    "vector_processing": PriceLine("TB"),
    "express_requests": PriceLine("request", "AmazonStates", "StepFunctions-Request"),
    "express_duration": PriceLine("GB-second", "AmazonStates", "StepFunctions-GB-Second"),
}
