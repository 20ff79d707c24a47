"""Server reflection: which services there are, and their descriptors. It needs no key: it shows
nothing that is stored, and tools call it first."""

from collections.abc import AsyncIterator, Iterable

from google.protobuf import descriptor_pool
from google.protobuf.descriptor import FileDescriptor
from grpc_reflection.v1alpha import reflection_pb2 as pb

from agent_memory.interfaces.grpc.calls import CallHead, Methods, StreamMethod
from agent_memory.interfaces.grpc.messages import parse_request
from agent_memory.interfaces.grpc.statuses import Status

# v1 is v1alpha renamed, message for message. Only the latter has descriptors here.
SERVICE = pb.DESCRIPTOR.services_by_name["ServerReflection"].full_name
_SERVICES = (SERVICE, "grpc.reflection.v1.ServerReflection")


class ReflectionService:
    """Answers for these services, from the descriptors of this process."""

    def __init__(self, services: Iterable[str]) -> None:
        self._services = sorted(services)
        self._pool = descriptor_pool.Default()

    def build_methods(self) -> Methods:
        method = StreamMethod(self._answer, is_open=True)
        return {f"/{service}/ServerReflectionInfo".encode(): method for service in _SERVICES}

    async def _answer(
        self, requests: AsyncIterator[bytes], _head: CallHead
    ) -> AsyncIterator[bytes]:
        async for raw in requests:
            request = parse_request(pb.ServerReflectionRequest, raw)
            try:
                response = self._describe(request)
            except KeyError:
                response = pb.ServerReflectionResponse(
                    error_response=pb.ErrorResponse(
                        error_code=Status.NOT_FOUND, error_message="there is no such symbol"
                    )
                )
            response.valid_host = request.host
            response.original_request.CopyFrom(request)
            yield response.SerializeToString()

    def _describe(self, request: pb.ServerReflectionRequest) -> pb.ServerReflectionResponse:
        """Answer a request. Raises KeyError if there is no such name."""
        match request.WhichOneof("message_request"):
            case "file_by_filename":
                return _describe_file(self._pool.FindFileByName(request.file_by_filename))
            case "file_containing_symbol":
                return _describe_file(self._find_file(request.file_containing_symbol))
            case "file_containing_extension":
                extension = request.file_containing_extension
                message = self._pool.FindMessageTypeByName(extension.containing_type)
                number = extension.extension_number
                found = self._pool.FindExtensionByNumber(message, number)
                return _describe_file(self._pool.FindFileContainingSymbol(found.full_name))
            case "all_extension_numbers_of_type":
                name = request.all_extension_numbers_of_type
                message = self._pool.FindMessageTypeByName(name)
                numbers = [each.number for each in self._pool.FindAllExtensions(message)]
                return pb.ServerReflectionResponse(
                    all_extension_numbers_response=pb.ExtensionNumberResponse(
                        base_type_name=name, extension_number=sorted(numbers)
                    )
                )
            case "list_services":
                services = [pb.ServiceResponse(name=name) for name in self._services]
                return pb.ServerReflectionResponse(
                    list_services_response=pb.ListServiceResponse(service=services)
                )
        return pb.ServerReflectionResponse(
            error_response=pb.ErrorResponse(
                error_code=Status.INVALID_ARGUMENT, error_message="the request asks for nothing"
            )
        )

    def _find_file(self, symbol: str) -> FileDescriptor:
        """Find the file of a symbol, which may be a method too. Raises KeyError."""
        try:
            return self._pool.FindFileContainingSymbol(symbol)
        except KeyError:
            service, _, method = symbol.rpartition(".")
            found = self._pool.FindServiceByName(service)
            if method not in found.methods_by_name:
                raise
            return found.file


def _describe_file(file: FileDescriptor) -> pb.ServerReflectionResponse:
    """Describe a file and all that it imports, each once."""
    files: dict[str, bytes] = {}
    todo = [file]
    while todo:
        file = todo.pop()
        if file.name not in files:
            files[file.name] = file.serialized_pb
            todo += file.dependencies
    return pb.ServerReflectionResponse(
        file_descriptor_response=pb.FileDescriptorResponse(
            file_descriptor_proto=list(files.values())
        )
    )
