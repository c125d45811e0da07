"""The doctor on the deployed environment: no check fails, and each injected illness is found."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from embedding_client._doctor.results import State
from embedding_kit.environment_file import load_environment
from embedding_kit.settings import Provisioned
from stacks.names import batch_stack_name, observability_stack_name, server_stack_name
from tools.rehearsal.deploy.cdk import Cdk
from tools.rehearsal.deploy.deployed import Outputs
from tools.rehearsal.deploy.doctor import Doctor, make_doctor
from tools.rehearsal.deploy.emulator import Credentials
from tools.rehearsal.deploy.illnesses import Patient
from tools.rehearsal.image.report import Report

__all__ = ["DoctorScenario", "make_scenario"]

_BY = "`embed doctor` as a role with the documented policy"
#: Alarms without data yet, and no address to notify.
_EXPECTED = {"alarms", "subscribers"}
_OTHER_SPACE = "other-model@1/int8/0123456789ab/384"


@dataclass(frozen=True, kw_only=True)
class DoctorScenario:
    """Injects illnesses, and lets the doctor find them.

    Attributes:
        report: The report of the checks.
        doctor: The doctor.
        patient: The deployed endpoint.
        artifact: The folder of the deployed model.
        folder: An empty folder.
        is_provisioned: Whether provisioned concurrency is set.
    """

    report: Report
    doctor: Doctor
    patient: Patient
    artifact: Path
    folder: Path
    is_provisioned: bool

    @property
    def _expected(self) -> set[str]:
        """The checks that warn in an emulated AWS: nothing scales there."""
        return _EXPECTED | ({"provisioned"} if self.is_provisioned else set())

    def check_health(self, moment: str) -> None:
        """Check that no check fails."""
        with self.patient.cold_start(812.5):
            results = self.doctor.examine()
        states = {result.check.name: result.result for result in results}
        troubled = {
            name: finding
            for name, finding in states.items()
            if finding.state == State.FAILED
            or (finding.state == State.WARNING and name not in self._expected)
            or "no permission" in finding.found
        }
        found = "; ".join(f"{name}: {finding.found}" for name, finding in troubled.items())
        self.report.check(
            "doctor",
            f"{moment}, no check fails, and nothing is skipped for a permission",
            not troubled and "812 ms" in states["cold start"].found,
            by=_BY,
            found=found or f"{len(states)} checks",
        )

    def check_illnesses(self) -> None:
        """Inject each illness that one deployed version can have, and find it."""
        patient, doctor = self.patient, self.doctor
        wrong = replace(doctor, who=Credentials(key="AKIAWRONG", secret="wrong"))  # noqa: S106 - no secret
        by_url = "lambda:InvokeFunctionUrl", "lambda:InvokeFunction"
        self._finds("credentials that AWS refuses", "credentials", by=wrong)
        self._finds("a host without an address", "address", by=replace(doctor, resolve=_no_address))
        expiring = replace(doctor, certificate_days=3)
        self._finds("a certificate that expires", "address", state=State.WARNING, by=expiring)
        self._finds("a URL without IAM auth", "unsigned", patient.open_url())
        self._finds("a caller without permissions", "signed", doctor.without(*by_url))
        for action in by_url:
            name = f"a caller without {action}"
            self._finds(name, "permissions", doctor.without(action), words=f"lacks {action}")
        spaces = doctor.asking(vector_space=_OTHER_SPACE)
        self._finds("stored vectors of another space", "vector space", by=spaces)
        slow = patient.cold_start(10_250)
        self._finds("an initialization over 10 s", "cold start", slow, state=State.WARNING)
        if not self.is_provisioned:
            self._finds("leftover provisioned concurrency", "provisioned", patient.leftover())
        # The policy covers only the environment's own stacks.
        nowhere = replace(doctor, who=patient.aws.root).asking(environment="nowhere")
        self._finds("an environment that is not deployed", "stacks", by=nowhere)
        self._finds("weights that no release explains", "weights", patient.weights())
        later = replace(doctor, shift=timedelta(days=100))
        self._finds("an image of 100 days", "base image", state=State.WARNING, by=later)
        self._finds("an alarm in ALARM", "alarms", patient.alarm())
        silence = patient.silence()
        self._finds("alarms without a subscriber", "subscribers", silence, state=State.WARNING)
        endless = patient.endless_logs()
        self._finds("logs without an end", "logs", endless, state=State.WARNING)
        self._finds(
            "a missing permission to look",
            "alarms",
            doctor.without("cloudwatch:DescribeAlarms"),
            state=State.SKIPPED,
            words="no permission for cloudwatch:DescribeAlarms",
        )
        # The last, because the emulated AWS keeps the metric.
        patient.count("Throttles", 7)
        self._finds("throttled requests", "throttling")

    def check_capacity(self) -> None:
        """Inject the illnesses of provisioned concurrency, and find them."""
        self._finds("suspended autoscaling", "provisioned", self.patient.suspended())
        self.patient.count("ProvisionedConcurrencySpilloverInvocations", 3)
        self._finds("spillover", "provisioned", state=State.WARNING)

    def check_outage(self) -> None:
        """Find the version that answers 502."""
        self._finds("an outage", "signed", words="502")
        self._finds("the alarms of an outage", "alarms")

    def check_rollback(self) -> None:
        """Find the release that an alarm has rolled back."""
        self._finds("a release that was rolled back", "last release", state=State.WARNING)
        self._finds("a stack that was rolled back", "stacks", state=State.WARNING)

    def check_batch(self) -> None:
        """Find a job that failed, after one that succeeded."""
        self._finds("a job that succeeded", "batch", state=State.OK)
        self.patient.fail_job(batch_stack_name(self.doctor.environment))
        self._finds("a job that failed", "batch", state=State.WARNING)

    def check_server(self) -> None:
        """Find the server of which no task runs any more."""
        stack = server_stack_name(self.doctor.environment)
        host, balancer = self.patient.balancer(stack)
        by = replace(self.doctor, balancers={host: balancer})
        self._finds("a server without a task", "server", by=by)

    def _finds(
        self,
        name: str,
        check: str,
        injected: AbstractContextManager[object] | None = None,
        *,
        state: State = State.FAILED,
        by: Doctor | None = None,
        words: str = "",
    ) -> None:
        with injected or nullcontext():
            finding = (by or self.doctor).check(check)
        self.report.check(
            "doctor",
            f"finds {name}",
            finding.state == state and words in finding.found,
            by=_BY,
            found=f"{check} {finding.state}: {finding.found}",
        )


def make_scenario(
    report: Report, cdk: Cdk, deployed: Outputs, *, artifact: Path, folder: Path
) -> DoctorScenario:
    """Create the doctor's role, and publish a metric of the platform, which AWS would."""
    environment = cdk.checkout.environment
    settings = load_environment(environment, folder=cdk.checkout.file.parent)
    folder.mkdir()
    patient = Patient(
        aws=cdk.aws,
        alias_arn=deployed["AliasArn"],
        topic=deployed.get("AlarmTopicArn", ""),
        observability=observability_stack_name(environment),
    )
    patient.publish(f"EmbeddingKit/{environment}", "MaxMemoryUsed", 200)
    return DoctorScenario(
        report=report,
        doctor=make_doctor(cdk.aws, environment, memory=folder / "spaces.json"),
        patient=patient,
        artifact=artifact,
        folder=folder,
        is_provisioned=isinstance(settings.cold_start, Provisioned),
    )


def _no_address(host: str, port: int) -> list[str]:
    raise OSError("Name or service not known")
